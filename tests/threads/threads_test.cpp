// Threads: the same bits for any number of them, one plan run from many threads at once, a caller's own
// executor, and life after fork().
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "cpu/threads/pool.hpp"
#include "judge/case.hpp"
#include "judge/draw.hpp"
#include "plan/planner.hpp"

namespace tconv::judge {
namespace {

using Bytes = std::vector<std::byte>;

// A plan of so many threads for a case, and runs of it with memory of their own.
class Runner {
 public:
  Runner(Case& c, const std::string& kernel, int threads) : case_(c) {
    plan::PlanOptions options;
    options.force_kernel = kernel;
    options.threads = threads;
    auto made = plan::make_plan(c.problem, cpu::host_device(), options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    plan_ = std::make_unique<plan::Plan>(std::move(made.value()));
  }

  Bytes run(const core::Executor& executor) const {
    const std::size_t workspace_bytes = plan_->workspace_bytes(false);
    auto workspace = case_.target.allocate(workspace_bytes + 1);
    Bytes output(static_cast<std::size_t>(case_.problem.output_elements()) * size_of(case_.problem.dtype) +
                 8);
    std::memset(output.data(), 0xff, output.size());
    plan::Operands operands = case_.device_operands();
    operands.output = output.data();
    const plan::RunContext context{workspace.value()->device(), executor, nullptr};
    const core::Status status = plan::run(*plan_, operands, false, context, workspace_bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    return output;
  }
  Bytes run() const { return run(cpu::pool_executor(plan_->options.threads)); }

 private:
  Case& case_;
  std::unique_ptr<plan::Plan> plan_;
};

std::unique_ptr<Case> make_case(const core::Problem& p, Target& target) {
  return std::move(Case::operands_only(p, Fill::uniform, target, {}).value());
}

std::vector<std::string> kernels_of(const core::Problem& p) {
  std::vector<std::string> names;
  for (const plan::KernelEntry* entry : plan::supporting(p, cpu::host_device(), {}))
    names.push_back(entry->name);
  return names;
}

// Enough tasks for eight threads, of each kind of kernel.
constexpr const char* kLines[] = {
    "n1 ci40 co72 l700 k4 s2 p1 bias f32",     "n3 ci64 co64 l90 k3 s1 p1 f32",
    "n2 ci96 co96 l400 k4 s2 p1 g96 bias f32", "n1 ci66 co1 l200 k64 s16 p0 f32",
    "n1 ci1 co60 l900 k5 s3 p1 bias f32",      "n2 ci40 co40 l300 k5 s2 p1 d2 f16",
    "n1 ci40 co72 l300 k4 s2 p1 bf16",         "n1 ci40 co72 l300 k4 s2 p1 f64",
    "n1 ci48 co48 l300 k4 s2 p1 g4 f32",       "gw n2 ci8 co8 l60 k4 s2 p1 f32"};

TEST(Threads, SameBitsForAnyNumberOfThreads) {
  const auto target = cpu_target(1);
  for (const char* line : kLines) {
    const core::Problem p = core::parse(line).value();
    const auto c = make_case(p, *target);
    for (const std::string& kernel : kernels_of(p)) {
      const Bytes expected = Runner(*c, kernel, 1).run();
      for (const int threads : {2, 3, 8}) {
        EXPECT_EQ(Runner(*c, kernel, threads).run(), expected) << line << " " << kernel << " " << threads;
      }
    }
  }
}

TEST(Threads, OnePlanRunsFromManyThreadsAtOnce) {
  const auto target = cpu_target(1);
  for (const char* line : kLines) {
    const core::Problem p = core::parse(line).value();
    const auto c = make_case(p, *target);
    const Runner runner(*c, "", 4);
    const Bytes expected = runner.run();
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 6; ++i) {
      callers.emplace_back([&] {
        for (int round = 0; round < 5; ++round) wrong += runner.run() == expected ? 0 : 1;
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0) << line;
  }
}

TEST(Threads, APlanIsMadeFromManyThreadsAtOnce) {
  std::vector<std::thread> makers;
  std::atomic<int> refused{0};
  for (int i = 0; i < 6; ++i) {
    makers.emplace_back([&, i] {
      for (uint64_t j = 0; j < 50; ++j) {
        Rng rng(static_cast<uint64_t>(i), j);
        const auto plan = plan::make_plan(draw_valid(rng), cpu::host_device(), {});
        refused += plan.ok() && !plan::explain(plan.value()).empty() ? 0 : 1;
      }
    });
  }
  for (std::thread& maker : makers) maker.join();
  EXPECT_EQ(refused, 0);
}

TEST(Pool, EveryIndexOnceAndSlotsNeverShared) {
  for (const int threads : {1, 2, 8}) {
    const core::Executor executor = cpu::pool_executor(threads);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
      std::vector<std::atomic<int>> inside(static_cast<std::size_t>(threads));
      std::atomic<int> shared{0};
      executor.run(count, [&](int64_t i, int32_t slot) {
        ASSERT_GE(slot, 0);
        ASSERT_LT(slot, threads);
        if (inside[static_cast<std::size_t>(slot)].fetch_add(1) != 0) ++shared;
        times[static_cast<std::size_t>(i)].fetch_add(1);
        inside[static_cast<std::size_t>(slot)].fetch_sub(1);
      });
      for (const auto& t : times) EXPECT_EQ(t, 1);
      EXPECT_EQ(shared, 0);
    }
  }
}

TEST(Pool, ATaskMayItselfRunTasks) {
  const core::Executor executor = cpu::pool_executor(4);
  std::atomic<int> done{0};
  executor.run(8, [&](int64_t, int32_t) { executor.run(8, [&](int64_t, int32_t) { ++done; }); });
  EXPECT_EQ(done, 64);
}

// A caller's executor: threads made for each call, tasks dealt out in turn.
struct OwnExecutor {
  int threads;
  std::atomic<int> calls{0};

  static void parallel_for(void* self, int64_t count, core::Executor::Task task, void* context) {
    auto* own = static_cast<OwnExecutor*>(self);
    ++own->calls;
    std::vector<std::thread> workers;
    for (int slot = 0; slot < own->threads; ++slot) {
      workers.emplace_back([=] {
        for (int64_t i = slot; i < count; i += own->threads) task(context, i, slot);
      });
    }
    for (std::thread& worker : workers) worker.join();
  }
};

TEST(Executor, ACallersOwnIsUsedAndGivesTheSameBits) {
  const auto target = cpu_target(1);
  int used = 0;
  for (const char* line : kLines) {
    const core::Problem p = core::parse(line).value();
    const auto c = make_case(p, *target);
    OwnExecutor own{5};
    const core::Executor executor{5, OwnExecutor::parallel_for, &own};
    const Runner runner(*c, "", 5);
    EXPECT_EQ(runner.run(executor), runner.run()) << line;
    used += own.calls > 0 ? 1 : 0;
  }
  EXPECT_GT(used, 5);
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads
TEST(Fork, TheChildOfAProcessWithAPoolComputes) {
  const auto target = cpu_target(1);
  const auto c = make_case(core::parse(kLines[0]).value(), *target);
  const Runner runner(*c, "", 4);
  const Bytes expected = runner.run();
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(30);  // a child that hangs ends by this signal
      _exit(runner.run() == expected ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(runner.run(), expected) << "the parent's pool still works";
  }
}
#endif

}  // namespace
}  // namespace tconv::judge
