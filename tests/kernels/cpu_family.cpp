#include "cpu_family.hpp"

#include <cmath>
#include <limits>

#include "judge/case.hpp"
#include "reference/reference.hpp"

namespace tconv::tests {

namespace {

void judge_on_this_target(const char* kernel, const std::string& line) {
  const core::Problem p = problem_of(line);
  ASSERT_EQ(p.dtype, core::DType::f32);
  judge::Rng rng(5);
  std::vector<float> x(static_cast<std::size_t>(p.x_elements()));
  std::vector<float> w(static_cast<std::size_t>(p.weight_elements()));
  for (float& v : x) v = static_cast<float>(rng.between(1, 4));
  for (float& v : w) v = static_cast<float>(rng.between(-3, 3));
  w.front() = std::numeric_limits<float>::infinity();
  w.back() = -std::numeric_limits<float>::infinity();
  if (w.size() > 2) w[w.size() / 2] = std::numeric_limits<float>::quiet_NaN();

  plan::PlanOptions options;
  options.force_kernel = kernel;
  options.threads = 2;
  auto made = plan::make_plan(p, cpu::host_device(), options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const std::size_t bytes = made.value().workspace_bytes(false);
  std::vector<std::byte> memory(bytes + 256);
  const auto misaligned = reinterpret_cast<std::uintptr_t>(memory.data()) % 256;
  plan::RunContext context{memory.data() + (256 - misaligned), cpu::pool_executor(2), nullptr};
  std::vector<float> y(static_cast<std::size_t>(p.y_elements()), 7);
  const plan::Operands operands{x.data(), w.data(), nullptr, nullptr, y.data()};
  ASSERT_TRUE(plan::run(made.value(), operands, false, context, bytes).ok());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double expected = reference::element_at(p, operands, static_cast<int64_t>(i)).value;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(y[i])) << line << " element " << i;
    } else {
      EXPECT_EQ(static_cast<double>(y[i]), expected) << line << " element " << i;
    }
  }
}

constexpr std::size_t kMargin = 64;
constexpr std::byte kPoison{0xa5};

// y and what lies around it, on a machine whose last cache has so many bytes.
std::vector<std::byte> output_of(const char* kernel, const core::Problem& p, int64_t last_cache,
                                 std::size_t place) {
  core::DeviceInfo device = cpu::host_device();
  device.last_cache_bytes = last_cache;
  plan::PlanOptions options;
  options.force_kernel = kernel;
  options.threads = 2;
  auto made = plan::make_plan(p, device, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (!made.ok()) return {};
  const bool past = made.value().kernel->describe().find("past the caches") != std::string::npos;
  EXPECT_EQ(past, last_cache > 0) << made.value().kernel->describe();
  const auto target = judge::cpu_target(2);
  judge::JudgeOptions judge_options;
  judge_options.seed = 3;
  auto operands = judge::Case::operands_only(p, judge::Fill::special, *target, judge_options);
  EXPECT_TRUE(operands.ok());
  const std::size_t bytes = made.value().workspace_bytes(false);
  auto workspace = target->allocate(bytes + 256);
  const std::size_t size = static_cast<std::size_t>(p.output_elements()) * size_of(p.dtype);
  auto memory = target->allocate(size + 2 * kMargin + 64);
  std::byte* y = memory.value()->host() + kMargin + place;
  std::fill(y - kMargin, y + size + kMargin, kPoison);
  plan::RunContext context{workspace.value()->host(), cpu::pool_executor(2), nullptr};
  plan::Operands with = operands.value()->device_operands();
  with.output = y;
  EXPECT_TRUE(plan::run(made.value(), with, false, context, bytes).ok());
  return {y - kMargin, y + size + kMargin};
}

}  // namespace

void judge_streaming(const char* kernel, std::initializer_list<const char*> lines) {
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    for (const char* line : lines) {
      for (const char* dtype : {" f32", " f64", " f16", " bf16"}) {
        const core::Problem p = problem_of(line + std::string(dtype));
        for (const std::size_t place : {std::size_t{0}, size_of(p.dtype), std::size_t{40}}) {
          const auto ordinary = output_of(kernel, p, 0, place);
          const auto streamed = output_of(kernel, p, 1, place);
          EXPECT_EQ(ordinary, streamed) << simd << " " << text(p) << " at " << place;
          EXPECT_EQ(streamed.front(), kPoison);
          EXPECT_EQ(streamed.back(), kPoison);
        }
      }
    }
  }
}

void judge_infinite_weights(const char* kernel, const std::string& line) {
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    SCOPED_TRACE(simd);
    judge_on_this_target(kernel, line);
  }
}

}  // namespace tconv::tests
