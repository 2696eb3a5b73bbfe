// Threads: the same bits for any number of them, one plan run from many threads at once, a caller's own
// executor, and life after fork().
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "judge/draw.hpp"
#include "runner.hpp"

namespace tconv::judge {
namespace {

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

TEST(Executor, AnExceptionInATaskComesOutOfTheRun) {
  OwnExecutor own{3};
  for (const core::Executor& executor : {core::Executor{}, cpu::pool_executor(3), own.executor()}) {
    std::atomic<int> begun{0};
    const auto failing = [&](int64_t i, int32_t) {
      ++begun;
      if (i % 2 == 1) throw std::runtime_error("task failed");
    };
    EXPECT_THROW(executor.run(100, failing), std::runtime_error);
    EXPECT_LT(begun, 100) << "tasks begin after one failed";
    std::atomic<int> done{0};
    executor.run(100, [&](int64_t, int32_t) { ++done; });
    EXPECT_EQ(done, 100) << "the executor still works";
  }
}

TEST(Executor, ACallersOwnIsUsedAndGivesTheSameBits) {
  const auto target = cpu_target(1);
  int used = 0;
  for (const char* line : kLines) {
    const core::Problem p = core::parse(line).value();
    const auto c = make_case(p, *target);
    OwnExecutor own{5};
    const Runner runner(*c, "", 5);
    EXPECT_EQ(runner.run(own.executor()), runner.run()) << line;
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
