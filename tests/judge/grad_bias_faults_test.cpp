// The judge looks at the gradient of a bias as at that of the weight.
#include <gtest/gtest.h>

#include <cstring>

#include "judge/judge.hpp"
#include "reference/reference.hpp"

namespace tconv::judge {
namespace {

enum class Fault { none, wrong_by_one, unwritten, beyond, threads_show };

// The reference, and then one fault in what it wrote.
template <Fault fault>
class Faulty final : public plan::Kernel {
 public:
  Faulty(const core::Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options)
      : p_(p), threads_(options.threads), right_(reference::kEntry.make(p, device, options)) {}
  std::string describe() const override { return "faulty"; }
  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const core::Status status = right_->run(operands, context);
    const int64_t last = p_.grad_bias_elements() - 1;
    auto* bytes = static_cast<std::byte*>(operands.grad_bias);
    const std::size_t element = size_of(p_.dtype);
    const double value = reference::load(p_.dtype, bytes, last);
    if (fault == Fault::wrong_by_one) reference::store(p_.dtype, bytes, last, value + 1);
    if (fault == Fault::unwritten)
      std::memset(bytes + static_cast<std::size_t>(last) * element, 0xff, element);
    if (fault == Fault::beyond) reference::store(p_.dtype, bytes, last + 1, 0);
    if (fault == Fault::threads_show && threads_ % 2 == 1) bytes[0] ^= std::byte{1};
    return status;
  }

 private:
  core::Problem p_;
  int threads_;
  std::unique_ptr<const plan::Kernel> right_;
};

template <Fault fault>
std::string verdict(const char* line, Fill fill, const JudgeOptions& options = {.seed = 11, .fills = {}}) {
  static const plan::KernelEntry entry = {
      .name = "faulty",
      .summary = "a kernel with a fault",
      .device = core::DeviceKind::cpu,
      .supports = [](const core::Problem&, const core::DeviceInfo&,
                     const plan::PlanOptions&) { return plan::Support::yes(); },
      .make = [](const core::Problem& p, const core::DeviceInfo& d, const plan::PlanOptions& o)
          -> std::unique_ptr<const plan::Kernel> { return std::make_unique<Faulty<fault>>(p, d, o); },
      .grad_bias = [](const core::Problem&, const core::DeviceInfo&) { return true; }};
  const auto target = cpu_target(2);
  const auto made = Case::make(core::parse(line).value(), fill, *target, options);
  return made.ok() ? judge(*made.value(), {"", &entry}).failure : made.status().message();
}

constexpr const char* kLines[] = {"weight n2 ci6 co5 l30 k4 s2 p1 bias f32",
                                  "weight n2 ci6 co5 l30 k4 s2 p1 xbias f16"};

TEST(Judge, CatchesFaultsInTheGradientOfABias) {
  for (const char* line : kLines) {
    for (const Fill fill : {Fill::integers, Fill::uniform, Fill::special}) {
      EXPECT_EQ(verdict<Fault::none>(line, fill), "") << line;
    }
    const auto says = [&](const std::string& failure, const char* words) {
      EXPECT_NE(failure.find(words), std::string::npos) << line << ": " << failure;
    };
    says(verdict<Fault::wrong_by_one>(line, Fill::integers), "integers: grad_bias[");
    says(verdict<Fault::unwritten>(line, Fill::uniform), "grad_bias[");
    says(verdict<Fault::threads_show>(line, Fill::uniform), "grad_bias[0] has other bits on a second run");
    // Sampled elements are enough for an element that was never written.
    const JudgeOptions few = {.seed = 11, .fills = {}, .all_products = 0};
    EXPECT_EQ(verdict<Fault::none>(line, Fill::uniform, few), "") << line;
    says(verdict<Fault::unwritten>(line, Fill::uniform, few), "grad_bias[");
  }
}

TEST(Judge, CatchesWhatIsWrittenBehindTheGradientOfABias) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer itself stops what reaches into a margin";
#endif
  for (const char* line : kLines) {
    const std::string failure = verdict<Fault::beyond>(line, Fill::uniform);
    EXPECT_NE(failure.find("behind the bias gradient"), std::string::npos) << line << ": " << failure;
  }
}

}  // namespace
}  // namespace tconv::judge
