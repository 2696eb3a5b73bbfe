// A planted fault in one register of one lane: `tconv check --where` must lead to it.
#include <gtest/gtest.h>

#include "core/device_info.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "judge/judge.hpp"
#include "reference/reference.hpp"

namespace tconv::judge::testing {
namespace {

using core::Problem;

// Computes on the host what cuda.sm80.dense computes, with its plan; what one register holds is off by one.
class LaneFault final : public plan::Kernel {
 public:
  static constexpr cuda::LaneRegister kFaulty{13, 0};

  explicit LaneFault(const Problem& p)
      : p_(p), plan_(cuda::sm80_plan(p, core::named_device("h200").value(), false)) {}

  std::string describe() const override { return "one register of one lane is off by one"; }
  std::string where(int64_t element) const override { return cuda::where(plan_, p_, element); }

  core::Status run(const plan::Operands& operands, const plan::RunContext&) const override {
    for (int64_t i = 0; i < p_.y_elements(); ++i) {
      const double value = reference::element_at(p_, operands, i).value;
      reference::store(p_.dtype, operands.output, i, value + (faulty(i) ? 1 : 0));
    }
    return {};
  }

  bool faulty(int64_t element) const {
    const cuda::OutputPlace at = cuda::output_place(p_, plan_.phases, element);
    if (!at.has_phase()) return false;
    const cuda::Holder holder = cuda::holder_of(plan_, at);
    return holder.block == 0 && holder.thread == kFaulty.lane && holder.sum == "sums[0][1][0]";
  }

 private:
  Problem p_;
  cuda::Sm80Plan plan_;
};

plan::Support yes(const Problem&, const core::DeviceInfo&, const plan::PlanOptions&) {
  return plan::Support::yes();
}
std::unique_ptr<const plan::Kernel> make(const Problem& p, const core::DeviceInfo&,
                                         const plan::PlanOptions&) {
  return std::make_unique<LaneFault>(p);
}

TEST(Where, LeadsToTheFaultyRegister) {
  const plan::KernelEntry entry = {"test.lane", "a lane is faulty", core::DeviceKind::cpu, yes, make};
  const auto target = cpu_target(1);
  JudgeOptions options;
  options.seed = 3;
  const Problem p = core::parse("n2 ci16 co40 l70 k4 s2 p1 bias f32 tf32").value();
  auto made = Case::make(p, Fill::integers, *target, options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const Verdict verdict = judge(*made.value(), {"", &entry});
  EXPECT_FALSE(verdict.right);
  ASSERT_FALSE(verdict.where.empty());
  for (const std::string& line : verdict.where) {
    EXPECT_NE(line.find("block 0, warp 0, lane 13, sums[0][1][0]"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace tconv::judge::testing
