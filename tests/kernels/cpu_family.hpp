// What the tests of every CPU kernel family do: given problems and random ones near a family's home, judged
// with the family forced, on each SIMD target that this machine has.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "cpu/simd/dispatch.hpp"
#include "cpu/threads/pool.hpp"
#include "judge/judge.hpp"
#include "judge/rng.hpp"
#include "plan/planner.hpp"

namespace tconv::tests {

// Forces a SIMD target for its lifetime.
class SimdTarget {
 public:
  explicit SimdTarget(const std::string& name) { EXPECT_TRUE(cpu::simd::choose_target(name).ok()) << name; }
  ~SimdTarget() { EXPECT_TRUE(cpu::simd::choose_target("").ok()); }
  SimdTarget(const SimdTarget&) = delete;

  static const std::vector<std::string>& all() { return cpu::simd::target_names(); }
};

inline void judge_problem(const core::Problem& problem, const char* kernel, uint64_t seed = 1,
                          std::vector<judge::Fill> fills = {}) {
  const auto target = judge::cpu_target(2);
  judge::JudgeOptions options;
  options.seed = seed;
  options.fills = std::move(fills);
  for (const judge::Verdict& verdict : judge::judge(problem, kernel, *target, options)) {
    EXPECT_TRUE(verdict.right) << text(problem) << "\n" << verdict.failure;
  }
}

inline core::Problem problem_of(const std::string& line) {
  auto parsed = core::parse(line);
  EXPECT_TRUE(parsed.ok()) << line << ": " << parsed.status().message();
  return parsed.ok() ? parsed.value() : core::Problem{};
}

// Each line in all four dtypes with every kind of data, on every SIMD target.
inline void judge_lines(const char* kernel, std::initializer_list<const char*> lines) {
  using judge::Fill;
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    for (const char* line : lines) {
      for (const char* dtype : {" f32", " f64", " f16", " bf16"}) {
        judge_problem(problem_of(line + std::string(dtype)), kernel, 1,
                      {Fill::integers, Fill::uniform, Fill::spread, Fill::special});
      }
    }
  }
}

// Also checks what holds for any plan: at most 8 MiB of workspace a thread, in addition to packed weights.
inline bool supported(const core::Problem& problem, const char* kernel) {
  plan::PlanOptions options;
  options.force_kernel = kernel;
  options.threads = 1;
  const auto made = plan::make_plan(problem, cpu::host_device(), options);
  if (!made.ok()) return false;
  EXPECT_LE(made.value().workspace_bytes(true), std::size_t{8} << 20) << text(problem);
  return true;
}

// Large problems: planned, not run.
inline void expect_bounded_workspace(const char* kernel, uint64_t seed,
                                     core::Operation operation = core::Operation::transposed) {
  int supporting = 0;
  for (uint64_t stream = 0; stream < 20'000; ++stream) {
    judge::Rng rng(seed, stream);
    core::Problem p;
    p.operation = operation;
    p.dtype = rng.chance(50) ? core::DType::f64 : core::DType::f32;
    p.n = rng.log_between(1, 5000);
    p.groups = rng.log_between(1, 2000);
    p.cin = p.groups * rng.log_between(1, 5000);
    p.cout = p.groups * rng.log_between(1, 5000);
    p.l = rng.log_between(1, 1'000'000);
    p.k = rng.log_between(1, 5000);
    p.stride = rng.log_between(1, 70'000);
    p.dilation = rng.chance(50) ? 1 : rng.log_between(1, 5000);
    if (validate(p).ok() && supported(p, kernel)) ++supporting;
  }
  EXPECT_GT(supporting, 100);
}

// What draws may have in addition to the family's own sizes: dtype, bias, padding, strides of what is read.
inline void draw_rest(judge::Rng& rng, core::Problem& p) {
  using core::DType;
  p.dtype = rng.pick({DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16});
  p.has_bias = rng.chance(50);
  if (rng.chance(30)) p.output_padding = rng.between(0, std::max(p.stride, p.dilation) - 1);
  const int64_t full = (p.l - 1) * p.stride + p.dilation * (p.k - 1) + 1 + p.output_padding;
  if (rng.chance(50)) p.padding = rng.between(0, std::min(full / 2, 2 * p.dilation * p.k));
  const auto steps = [&](int64_t channels, int64_t positions) -> std::array<int64_t, 3> {
    const int64_t position = rng.pick<int64_t>({0, 1, 1, 2, channels});
    const int64_t channel = rng.pick<int64_t>({0, 1, position * positions, position * positions + 3});
    return {rng.pick<int64_t>({0, channel * channels + 1, channel * channels}), channel, position};
  };
  p.x_contiguous = !p.reads_x() || !rng.chance(30);
  if (!p.x_contiguous) p.x_stride = steps(p.cin, p.l);
  p.bias_of_x = p.writes_grad_bias() && rng.chance(40);
  p.y_contiguous = !p.reads_y() || !rng.chance(30);
  if (!p.y_contiguous) p.y_stride = steps(p.cout, p.lout());
  // As judge::draw_valid: no sums of equal terms.
  if (!p.y_contiguous && p.operation != core::Operation::strided)
    p.y_stride[2] = std::max<int64_t>(1, p.y_stride[2]);
  if (!p.x_contiguous && p.bias_of_x) p.x_stride[2] = std::max<int64_t>(1, p.x_stride[2]);
}

// draw fills in the sizes; invalid and unsupported draws do not count. SIMD targets take turns.
inline void judge_random(const char* kernel, int problems, uint64_t seed,
                         const std::function<void(judge::Rng&, core::Problem&)>& draw) {
  const auto& targets = SimdTarget::all();
  for (uint64_t stream = 0; problems > 0; ++stream) {
    ASSERT_LT(stream, 100'000u) << "the draws hardly ever suit " << kernel;
    judge::Rng rng(seed, stream);
    core::Problem p;
    draw(rng, p);
    draw_rest(rng, p);
    if (!validate(p).ok() || !supported(p, kernel)) continue;
    --problems;
    const SimdTarget only(targets[static_cast<std::size_t>(problems) % targets.size()]);
    judge_problem(p, kernel, stream);
    if (::testing::Test::HasFailure()) return;
  }
}

// For judge_random: sizes up to these, of a group where they are channels.
struct Most {
  int64_t n, cin, cout, l, k, stride, dilation = 40;
};

inline void draw_sizes(judge::Rng& rng, core::Problem& p, const Most& most) {
  p.n = rng.between(0, most.n);
  p.groups = rng.pick({1, 1, 1, 2, 3});
  p.cin = p.groups * rng.log_between(1, most.cin);
  p.cout = p.groups * rng.log_between(1, most.cout);
  p.l = rng.log_between(1, most.l);
  p.k = rng.log_between(1, most.k);
  p.stride = rng.log_between(1, most.stride);
  p.dilation = rng.chance(60) ? 1 : rng.log_between(1, most.dilation);
  if (p.n * p.cin * p.cout * p.l * p.k > 5'000'000) p.n = 0;
}

// For judge_random: groups of few channels, some dilated.
inline void draw_few_channels(judge::Rng& rng, core::Problem& p) {
  p.n = rng.between(0, 3);
  p.groups = rng.log_between(1, 40);
  p.cin = p.groups * rng.pick({1, 1, 1, 2, 3, 8});
  p.cout = p.groups * rng.pick({1, 1, 1, 2, 3, 8});
  p.l = rng.log_between(1, 600);
  p.k = rng.log_between(1, 30);
  p.stride = rng.log_between(1, 12);
  p.dilation = rng.chance(70) ? 1 : rng.between(2, 9);
}

// Infinite and NaN weights: outputs at the ends of x meet only the taps that exist.
void judge_infinite_weights(const char* kernel, const std::string& line);

// Outputs stored past the caches: the same bits as stored in the ordinary way, and nothing around y. On every
// SIMD target, in every dtype, y at several places within a cache line.
void judge_streaming(const char* kernel, std::initializer_list<const char*> lines);

}  // namespace tconv::tests
