// The gradients of weight and bias from one plan on a GPU: right, and of the bits that two calls have.
#include "support/grad_bias.hpp"

#include "cuda/entries.hpp"
#include "cuda/sm90/weight_rows_plan.hpp"
#include "cuda/sm90/weight_turned_plan.hpp"
#include "gpu/judged.hpp"

namespace tconv::gpu_test {
namespace {

class GradBias : public Judged {};

TEST_F(GradBias, OnePlanHasTheBitsOfTwo) {
  expect_bits_of_two_plans(200, *target_, 62);
}

TEST_F(GradBias, RightOnEveryKernel) {
  for (const char* line :
       {"weight n4 ci32 co48 l500 k4 s2 p1 f32 tf32", "weight n2 ci64 co64 l1000 k3 s1 p1 bf16",
        "weight n3 ci1 co70 l900 k3 s3 op2 f32", "weight n2 ci8 co8 g8 l300 k5 s2 p2 d3 f64",
        "weight n0 ci4 co3 l5 k2 f32", "weight n2 ci4 co6 l2 k1 p1 f16"}) {
    for (const char* bias : {" bias", " xbias"}) {
      const core::Problem p = core::parse(line + std::string(bias)).value();
      for (const judge::Verdict& v : judge::judge(p, "all", *target_, {.seed = 7, .fills = {}})) {
        EXPECT_TRUE(v.right) << text(p) << ": " << v.kernel << ": " << v.failure;
      }
    }
  }
}

// Small integers, of which every sum is exact, and the gradients that they have.
struct Integers {
  core::Problem problem;
  std::unique_ptr<judge::Case> data;
  BothGradients expected;

  Integers(const std::string& line, judge::Target& target) : problem(core::parse(line).value()) {
    data = std::move(
        judge::Case::operands_only(problem, judge::Fill::integers, target, {.seed = 5, .fills = {}}).value());
    const std::size_t element = size_of(problem.dtype);
    const int64_t outputs = problem.output_elements(), channels = problem.grad_bias_elements();
    expected.output.resize(static_cast<std::size_t>(outputs) * element);
    expected.grad_bias.resize(static_cast<std::size_t>(channels) * element);
    const plan::Operands host = data->host_operands();
    for (int64_t i = 0; i < outputs + channels; ++i) {
      const double value = reference::element_at(problem, host, i).value;
      if (i < outputs) reference::store(problem.dtype, expected.output.data(), i, value);
      if (i >= outputs) reference::store(problem.dtype, expected.grad_bias.data(), i - outputs, value);
    }
  }

  void expect(const plan::Kernel& kernel, judge::Target& target) const {
    const Written workspace(target, kernel.workspace_bytes()), output(target, expected.output.size()),
        grad_bias(target, expected.grad_bias.size());
    plan::Operands operands = data->device_operands();
    operands.output = output.device(), operands.grad_bias = grad_bias.device();
    plan::RunContext context = target.context(0);
    context.workspace = workspace.device();
    core::Status status = kernel.run(operands, context);
    if (status.ok()) status = target.finish();
    ASSERT_TRUE(status.ok()) << status.message();
    const std::string what = text(problem) + ": " + kernel.describe();
    EXPECT_TRUE(output.take() == expected.output) << what;
    EXPECT_TRUE(grad_bias.take() == expected.grad_bias) << what;
  }
};

// Every configuration of the kernels that sum dy: several tiles of rows and columns, of which a unit's phases
// may be in two, outputs without a phase, outputs beyond all taps, boxes of a row, splits, groups.
TEST_F(GradBias, SummedByEveryConfiguration) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  for (const char* text :
       {"n4 ci72 co40 l301 k5 s1 p2", "n4 ci16 co8 l130 k7 s3 p1", "n2 ci200 co40 l140 k9 s1 p0 d5",
        "n7 ci130 co24 l64 k16 s8 p4", "n2 ci16 co32 l200 k3 s2 p1 d2 g2", "n1 ci33 co70 l333 k41 s1 p20",
        "n1 ci64 co300 l515 k20 s10 p5", "n1 ci24 co20 l97 k62 s31 p3", "n4 ci40 co24 l224 k2 s5 p0 op4",
        "n4 ci64 co64 l64 k3 s1 p1 d40 op7", "n8 ci8 co8 l112 k1 s1 p0", "n8 ci8 co8 l56 k1 s2 p0 op1"}) {
    for (const char* mode : {" f32", " bf16", " f16"}) {
      const Integers problem("weight " + std::string(text) + " bias" + mode, *target_);
      const core::Problem& p = problem.problem;
      int taken = 0;
      const auto expect = [&](const auto& plan, const auto& sums, const auto& kernel_of, const auto& config) {
        if (plan.blocks == 0 || !sums(plan.mode, config.shape)) return;
        ++taken;
        EXPECT_TRUE(plan.params.sums_y);
        problem.expect(*kernel_of(p, device, config), *target_);
      };
      for (int variant = 0; variant < 4; ++variant) {
        const bool in_rows = variant % 2 == 1;
        const int splits = 1 + variant / 2 * 2;
        for (int i = 0; i < static_cast<int>(std::size(cuda::kSm90WeightRowsShapeTable)); ++i) {
          for (const int positions : cuda::kSm90WeightRowsPositions) {
            const cuda::Sm90WeightRowsConfig config{i, positions, in_rows, splits};
            expect(cuda::sm90_weight_rows_plan_of(p, device, config), cuda::weight_rows_sums,
                   cuda::sm90_weight_rows_kernel, config);
          }
        }
        for (int i = 0; i < static_cast<int>(std::size(cuda::kSm90WeightBlockedShapeTable)); ++i) {
          const cuda::Sm90WeightTurnedConfig config{i, in_rows, splits};
          expect(cuda::sm90_weight_turned_plan_of(p, device, config), cuda::weight_turned_sums,
                 cuda::sm90_weight_turned_kernel, config);
        }
      }
      if (size_of(p.dtype) == 2 && p.stride > 15) {
        EXPECT_EQ(taken, 0) << text << mode << ": a row of a copy has no runs of 16 elements";
      } else {
        EXPECT_GT(taken, 3) << text << mode;
      }
    }
  }
}

// Sums of millions of numbers are as exact as short ones.
TEST_F(GradBias, LongSumsBesideTheWeight) {
  if (cuda::device_info(0).value().sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  const struct {
    const char *kernel, *mode;
  } cases[] = {{"cuda.sm90.weight_rows", " f32"},
               {"cuda.sm90.weight_turned", " f32"},
               {"cuda.sm90.weight_turned", " bf16"}};
  for (const auto& c : cases) {
    const core::Problem p =
        core::parse("weight n16 ci8 co8 l262144 k3 s1 p1 bias" + std::string(c.mode)).value();
    for (const judge::Verdict& v :
         judge::judge(p, c.kernel, *target_, {.seed = 9, .fills = {judge::Fill::positive}})) {
      EXPECT_TRUE(v.right) << text(p) << ": " << v.kernel << ": " << v.failure;
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
