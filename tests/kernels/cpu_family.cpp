#include "cpu_family.hpp"

#include <cmath>
#include <limits>

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

}  // namespace

void judge_infinite_weights(const char* kernel, const std::string& line) {
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    SCOPED_TRACE(simd);
    judge_on_this_target(kernel, line);
  }
}

}  // namespace tconv::tests
