// What the tests of threads share: problems with tasks for eight threads, runs of a plan for one, and an
// executor of the caller's own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cpu/threads/pool.hpp"
#include "judge/case.hpp"
#include "plan/planner.hpp"

namespace tconv::judge {

using Bytes = std::vector<std::byte>;

// Enough tasks for eight threads, of each kind of kernel.
inline constexpr const char* kLines[] = {
    "n1 ci40 co72 l700 k4 s2 p1 bias f32",     "n3 ci64 co64 l90 k3 s1 p1 f32",
    "n2 ci96 co96 l400 k4 s2 p1 g96 bias f32", "n1 ci66 co1 l200 k64 s16 p0 f32",
    "n1 ci1 co60 l900 k5 s3 p1 bias f32",      "n2 ci40 co40 l300 k5 s2 p1 d2 f16",
    "n1 ci40 co72 l300 k4 s2 p1 bf16",         "n1 ci40 co72 l300 k4 s2 p1 f64",
    "n1 ci48 co48 l300 k4 s2 p1 g4 f32",       "gw n2 ci8 co8 l60 k4 s2 p1 f32",
    "gw n3 ci8 co8 l5000 k4 s2 p1 bias f32"};

inline std::unique_ptr<Case> make_case(const core::Problem& p, Target& target) {
  return std::move(Case::operands_only(p, Fill::uniform, target, {}).value());
}

inline std::vector<std::string> kernels_of(const core::Problem& p) {
  std::vector<std::string> names;
  for (const plan::KernelEntry* entry : plan::supporting(p, cpu::host_device(), {}))
    names.push_back(entry->name);
  return names;
}

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
    const core::Problem& p = case_.problem;
    const std::size_t bytes = static_cast<std::size_t>(p.output_elements()) * size_of(p.dtype);
    Bytes output(bytes + static_cast<std::size_t>(p.grad_bias_elements()) * size_of(p.dtype) + 8);
    std::memset(output.data(), 0xff, output.size());
    plan::Operands operands = case_.device_operands();
    operands.output = output.data();
    if (p.writes_grad_bias()) operands.grad_bias = output.data() + bytes;  // behind it
    const plan::RunContext context{workspace.value()->device(), executor, nullptr};
    const core::Status status = plan::run(*plan_, operands, false, context, workspace_bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    return output;
  }
  Bytes run() const { return run(cpu::pool_executor(plan_->options.threads)); }

  const plan::Plan& plan() const { return *plan_; }

 private:
  Case& case_;
  std::unique_ptr<plan::Plan> plan_;
};

// A caller's executor: new threads for each call, tasks dealt out in turn.
struct OwnExecutor {
  int threads;
  void (*on_thread)() = nullptr;  // called first on each thread
  std::atomic<int> calls{0};

  core::Executor executor() { return {threads, parallel_for, this}; }

  static void parallel_for(void* self, int64_t count, core::Executor::Task task, void* context) {
    auto* own = static_cast<OwnExecutor*>(self);
    ++own->calls;
    std::vector<std::thread> workers;
    for (int slot = 0; slot < own->threads; ++slot) {
      workers.emplace_back([=] {
        if (own->on_thread != nullptr) own->on_thread();
        for (int64_t i = slot; i < count; i += own->threads) task(context, i, slot);
      });
    }
    for (std::thread& worker : workers) worker.join();
  }
};

}  // namespace tconv::judge
