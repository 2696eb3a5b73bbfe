// Multiply-add and copy rates of this CPU, vectorised for the SIMD target in use.
//
//   multiply-add: for each thread, kChains vectors acc = acc * a + b, over and over
//   tiles:        the same of bf16 with AMX: products of tiles in registers
//   copy:         tasks of 256 KiB, load -> store, around the buffers
#include <algorithm>
#include <chrono>
#include <vector>

#include "cpu/amx/tiles.hpp"
#include "cpu/threads/pool.hpp"
#include "floor.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tconv/cpu_rates.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/aligned_allocator.h"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cli::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Returns the floating-point operations done; sink keeps the compiler from leaving them out.
template <class T>
double multiply_add_as(int64_t rounds, double* sink) {
  const hn::ScalableTag<T> d;
  const auto a = hn::Set(d, static_cast<T>(0.999)), b = hn::Set(d, static_cast<T>(0.001));
  // 12 chains cover the latency (4 cycles, two units) and fit into 16 registers. Each begins with another
  // value: compilers merge equal chains.
  auto v0 = hn::Iota(d, T(0)), v1 = hn::Iota(d, T(1)), v2 = hn::Iota(d, T(2)), v3 = hn::Iota(d, T(3));
  auto v4 = hn::Iota(d, T(4)), v5 = hn::Iota(d, T(5)), v6 = hn::Iota(d, T(6)), v7 = hn::Iota(d, T(7));
  auto v8 = hn::Iota(d, T(8)), v9 = hn::Iota(d, T(9)), v10 = hn::Iota(d, T(10)), v11 = hn::Iota(d, T(11));
  for (int64_t i = 0; i < rounds; ++i) {
    v0 = hn::MulAdd(v0, a, b), v1 = hn::MulAdd(v1, a, b), v2 = hn::MulAdd(v2, a, b);
    v3 = hn::MulAdd(v3, a, b), v4 = hn::MulAdd(v4, a, b), v5 = hn::MulAdd(v5, a, b);
    v6 = hn::MulAdd(v6, a, b), v7 = hn::MulAdd(v7, a, b), v8 = hn::MulAdd(v8, a, b);
    v9 = hn::MulAdd(v9, a, b), v10 = hn::MulAdd(v10, a, b), v11 = hn::MulAdd(v11, a, b);
  }
  const auto s0 = hn::Add(hn::Add(v0, v1), hn::Add(v2, v3));
  const auto s1 = hn::Add(hn::Add(v4, v5), hn::Add(v6, v7));
  const auto s2 = hn::Add(hn::Add(v8, v9), hn::Add(v10, v11));
  *sink += static_cast<double>(hn::GetLane(hn::Add(s0, hn::Add(s1, s2))));
  return 2.0 * 12.0 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

double MultiplyAdd(bool f64, int64_t rounds, double* sink) {
#if HWY_HAVE_FLOAT64
  if (f64) return multiply_add_as<double>(rounds, sink);
#endif
  (void)f64;
  return multiply_add_as<float>(rounds, sink);
}

// from and to are aligned; a partial vector at the end is not copied. stream: past the caches.
void Copy(const float* from, float* to, int64_t count, bool stream) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (stream) {
    for (int64_t i = 0; i + lanes <= count; i += lanes) hn::Stream(hn::Load(d, from + i), d, to + i);
    hwy::FlushStream();
  } else {
    for (int64_t i = 0; i + lanes <= count; i += lanes) hn::Store(hn::Load(d, from + i), d, to + i);
  }
}

}  // namespace tconv::cli::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cli {
namespace {

HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(Copy);

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of several rounds: what the machine can do when nothing disturbs it. work(sink) is a thread's part
// of a round, and returns its floating-point operations.
double best_gflops(int threads, const auto& work) {
  const core::Executor executor = cpu::pool_executor(threads);
  std::vector<double> flops(static_cast<std::size_t>(threads) * 16),
      sinks(flops.size());  // a cache line each
  double best = 0;
  for (int round = 0; round < 8; ++round) {
    const double seconds = seconds_of([&] {
      executor.run(threads, [&](int64_t i, int32_t) {
        const auto at = static_cast<std::size_t>(i) * 16;
        flops[at] = work(&sinks[at]);
      });
    });
    double total = 0;
    for (const double f : flops) total += f;
    best = std::max(best, total / seconds / 1e9);
  }
  return best;
}

double multiply_add_gflops(core::DType dtype, int threads) {
  const bool f64 = dtype == core::DType::f64;
  const double vectors =
      best_gflops(threads, [f64](double* sink) { return TCONV_DISPATCH(MultiplyAdd)(f64, 400'000, sink); });
  if (dtype != core::DType::bf16 || !cpu::amx::tiles_in_use()) return vectors;
  return std::max(vectors,
                  best_gflops(threads, [](double*) { return 2 * cpu::amx::multiply_registers(50'000); }));
}

using Floats = hwy::AlignedFreeUniquePtr<float[]>;

Floats floats(int64_t count) {
  Floats data = hwy::AllocateAligned<float>(static_cast<std::size_t>(count));
  if (data != nullptr) std::fill_n(data.get(), count, 1.0f);  // touches every page
  return data;
}

// The better of plain and streaming stores.
double copy_gbps(int threads, std::size_t bytes, int buffers) {
  constexpr int64_t kPart = 1 << 16;  // floats that a task copies
  const auto count = std::max<int64_t>(static_cast<int64_t>(bytes / 2 / sizeof(float)), 1024);
  std::vector<Floats> from, to;
  for (int i = 0; i < buffers; ++i) {
    from.push_back(floats(count));
    to.push_back(floats(count));
    if (from.back() == nullptr || to.back() == nullptr) return 0;
  }
  const core::Executor executor = cpu::pool_executor(threads);
  auto copy = [&](int which, bool stream) {
    const float* source = from[static_cast<std::size_t>(which)].get();
    float* target = to[static_cast<std::size_t>(which)].get();
    executor.run((count + kPart - 1) / kPart, [&](int64_t part, int32_t) {
      const int64_t first = part * kPart;
      TCONV_DISPATCH(Copy)(source + first, target + first, std::min(kPart, count - first), stream);
    });
  };
  double best = 0, spent = 0;
  for (int i = 0; i < 4000 && (spent < 0.04 || i < 8); ++i) {
    const bool stream = i / buffers % 2 == 1;
    const double seconds = seconds_of([&] { copy(i % buffers, stream); });
    spent += seconds;
    if (i >= buffers) best = std::max(best, static_cast<double>(count) * 8 / seconds / 1e9);
  }
  return best;
}

}  // namespace

Rates measure_cpu(core::DType dtype, int threads, std::size_t copy_bytes, int buffers) {
  return {multiply_add_gflops(dtype, threads), copy_gbps(threads, copy_bytes, buffers)};
}

}  // namespace tconv::cli
#endif
