// The library's own threads: throughput with 1, 2, 4 and 8 calling threads, the cost of a run that has
// nothing to do, how fast a sleeping worker begins, and the CPU that an idle process uses.
//
//   cmake --preset cpu && cmake --build --preset cpu --target bench_threads
//   build/cpu/benchmarks/bench_threads --benchmark_out=benchmarks/results/threads.json
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "cpu/threads/pool.hpp"
#include "plan/planner.hpp"

namespace {

using namespace tconv;
using Clock = std::chrono::steady_clock;

// The layer of a vocoder, with memory of its own: what one request of a server runs.
class Layer {
 public:
  Layer(const char* line, int threads)
      : problem_(core::parse(line).value()), executor_(cpu::pool_executor(threads)) {
    plan::PlanOptions options;
    options.threads = threads;
    plan_ = std::make_unique<plan::Plan>(
        std::move(plan::make_plan(problem_, cpu::host_device(), options).value()));
    x_ = floats(problem_.x_elements());
    y_ = floats(problem_.y_elements());
    raw_ = floats(problem_.weight_elements());
    packed_ = memory(plan_->packed_bytes());
    workspace_ = memory(plan_->workspace_bytes(true));
    if (!plan::pack(*plan_, raw_.data(), packed_.get(), {nullptr, executor_, nullptr}).ok()) {
      std::abort();
    }
  }

  void run() {
    plan::Operands operands;
    operands.x = x_.data();
    operands.weight = packed_.get();
    operands.output = y_.data();
    const plan::RunContext context{workspace_.get(), executor_, nullptr};
    if (!plan::run(*plan_, operands, true, context, plan_->workspace_bytes(true)).ok()) std::abort();
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory memory(std::size_t bytes) {
    return Memory(static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 256) / 256 * 256)));
  }
  static std::vector<float> floats(int64_t count) {
    return std::vector<float>(static_cast<std::size_t>(count), 0.5f);
  }

  core::Problem problem_;
  core::Executor executor_;
  std::unique_ptr<plan::Plan> plan_;
  std::vector<float> x_, y_, raw_;
  Memory packed_, workspace_;
};

// Every caller runs its own layer, on as many threads as there are cores. items_per_second is all callers'
// runs; it must not fall as callers are added.
void callers(benchmark::State& state, const char* line) {
  Layer layer(line, cpu::host_device().threads);
  layer.run();
  for (auto _ : state) layer.run();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(callers, long_layer, "n1 ci256 co128 l800 k16 s8 p4 f32")
    ->ThreadRange(1, 8)
    ->UseRealTime()
    ->MinTime(1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(callers, short_layer, "n1 ci64 co32 l100 k4 s2 p1 f32")
    ->ThreadRange(1, 8)
    ->UseRealTime()
    ->MinTime(1)
    ->Unit(benchmark::kMicrosecond);

// Handing tasks over and waiting for their end, workers awake (no pause) or asleep (1 ms and more).
void empty_run(benchmark::State& state) {
  const core::Executor executor = cpu::pool_executor(cpu::host_device().threads);
  for (auto _ : state) {
    if (state.range(0) > 0) std::this_thread::sleep_for(std::chrono::microseconds(state.range(0)));
    const auto start = Clock::now();
    executor.run(executor.threads, [](int64_t, int32_t) {});
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
}
BENCHMARK(empty_run)->ArgName("pause_us")->Arg(0)->Arg(1000)->UseManualTime()->Iterations(2000);

// From the call to a worker's first task, after a pause: spinning (10 us) or asleep (1 ms and more).
void wake(benchmark::State& state) {
  const core::Executor executor = cpu::pool_executor(2);
  std::vector<double> seconds;
  for (auto _ : state) {
    const auto pause = Clock::now() + std::chrono::microseconds(state.range(0));
    if (state.range(0) >= 1000) std::this_thread::sleep_until(pause);
    while (Clock::now() < pause) {
    }
    std::atomic<bool> begun{false};
    Clock::time_point helped;
    const auto start = Clock::now();
    executor.run(2, [&](int64_t, int32_t slot) {
      if (slot == 0) {
        const auto end = start + std::chrono::milliseconds(20);
        while (!begun.load(std::memory_order_acquire) && Clock::now() < end) {
        }
      } else {
        helped = Clock::now();
        begun.store(true, std::memory_order_release);
      }
    });
    const double time = begun ? std::chrono::duration<double>(helped - start).count() : 20e-3;
    seconds.push_back(time);
    state.SetIterationTime(time);
  }
  std::sort(seconds.begin(), seconds.end());
  state.counters["median_us"] = seconds[seconds.size() / 2] * 1e6;
  state.counters["p99_us"] = seconds[seconds.size() * 99 / 100] * 1e6;
}
BENCHMARK(wake)->ArgName("pause_us")->Arg(10)->Arg(1000)->Arg(20000)->UseManualTime()->Iterations(500);

double process_cpu() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// CPU time of the process in 200 ms of idleness after a run.
void idle(benchmark::State& state) {
  const core::Executor executor = cpu::pool_executor(cpu::host_device().threads);
  double cpu = 0;
  for (auto _ : state) {
    executor.run(64, [](int64_t, int32_t) {});
    const double before = process_cpu();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cpu += process_cpu() - before;
  }
  state.counters["cpu_us"] = cpu / static_cast<double>(state.iterations()) * 1e6;
}
BENCHMARK(idle)->Iterations(10)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
