#include "cuda/simt/flipped.hpp"

#include "core/checked.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/simt/strided_sliding.hpp"
#include "cuda/simt/strided_way.hpp"

namespace tconv::cuda {
namespace simt {

using core::DeviceInfo;
using core::Problem;
using core::Status;

std::optional<Problem> flipped_form(const Problem& p) {
  const core::Size reach = core::Size(p.dilation) * (p.k - 1);
  if (p.stride != 1 || p.output_padding != 0 || reach >= 1 << 20) return std::nullopt;
  const int64_t padding = p.dilation * (p.k - 1) - p.padding, lout = p.lout();
  if (padding < 0 || lout == 0) return std::nullopt;
  Problem form = p;
  form.operation = core::Operation::strided;
  form.cin = p.cout, form.cout = p.cin;
  form.l = lout, form.padding = padding;
  form.y_contiguous = p.x_contiguous, form.y_stride = p.x_stride;
  form.x_contiguous = true, form.x_stride = {0, 0, 0};
  return form;
}

StridedConfig plan_flipped(const Problem& form, const DeviceInfo& device) {
  const StridedConfig direct = plan_strided_direct(form, device);
  if (!strided_sliding_refusal(form, device).empty()) return direct;
  const StridedConfig sliding = plan_strided_sliding(form);
  return strided_ms(form, sliding, device) < strided_ms(form, direct, device) ? sliding : direct;
}

double flipped_ms(const Problem& p, const DeviceInfo& device) {
  const Problem form = *flipped_form(p);
  return strided_ms(form, plan_flipped(form, device), device);
}

namespace {

class FlippedKernel final : public plan::Kernel {
 public:
  FlippedKernel(const Problem& problem, const DeviceInfo& device, const plan::PlanOptions&)
      : FlippedKernel(problem, device, plan_flipped(*flipped_form(problem), device)) {}
  FlippedKernel(const Problem& problem, const DeviceInfo& device, const StridedConfig& config)
      : problem_(problem), form_(*flipped_form(problem)), device_(device), config_(config) {}

  std::string describe() const override {
    return "a thread " + std::to_string(config_.rows) + " cout x " + std::to_string(config_.positions) +
           " positions, " + (config_.sliding ? "side by side, " : "") + std::to_string(config_.lanes) +
           " threads a piece of a row" + tf32_words(problem_);
  }
  double predicted_ms() const override { return strided_ms(form_, config_, device_); }
  std::vector<plan::StageLine> stages() const override {
    return {
        {"schedule", std::to_string(config_.lanes) + " threads a piece of " +
                         std::to_string(config_.lanes * config_.positions) + " positions, " +
                         std::to_string(config_.parts) + " pieces a row, " +
                         std::to_string(config_.row_tiles) + " tiles of cout"},
        {"source", config_.sliding ? "x in windows in shared memory" : "x by elements, through the L1 cache"},
        {"weights", std::string("raw, ") + (config_.sliding ? "in shared memory" : "through the L1 cache") +
                        ", taps in reverse"},
        {"operand", "widened in registers"},
        {"product", "fused multiply-adds, a thread " + std::to_string(config_.rows) + " cout x " +
                        std::to_string(config_.positions) + " positions"},
        epilogue_line(problem_),
        {"writer",
         config_.sliding ? "through shared memory, in words" : "from registers, element by element"}};
  }
  std::string where(int64_t element) const override {
    return element_text(problem_, element) + "; " + cuda::text(holder_of(config_, form_, element));
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtFlipped.name, problem_, device_, context);
    if (const Status status = launcher.check(operands); !status.ok()) return status;
    plan::Operands of_form = operands;
    of_form.grad_output = operands.x;
    // The first group's last tap.
    of_form.weight = static_cast<const std::byte*>(operands.weight) +
                     static_cast<int64_t>(size_of(problem_.dtype)) * (problem_.k - 1);
    if (config_.sliding) {
      const StridedSlidingParams a = flipped_sliding_params(form_, config_, of_form);
      return launcher.run(sliding_function_of(form_, config_),
                          {a.blocks, kStridedThreads, static_cast<std::size_t>(config_.shared_bytes)}, a);
    }
    const StridedParams a = strided_params(form_, config_, of_form);
    return launcher.run(flipped_function(problem_.dtype, config_.rows, config_.positions),
                        {a.blocks, kStridedThreads}, a);
  }

 private:
  Problem problem_, form_;
  DeviceInfo device_;
  StridedConfig config_;
};

}  // namespace

std::unique_ptr<const plan::Kernel> flipped_kernel(const Problem& problem, const DeviceInfo& device,
                                                   const StridedConfig& config) {
  return std::make_unique<FlippedKernel>(problem, device, config);
}

namespace {

std::string refusal(const Problem& p, const DeviceInfo& device) {
  if (std::string words = simt_refusal(p, device, core::Operation::transposed); !words.empty()) return words;
  const std::optional<Problem> form = flipped_form(p);
  if (!form)
    return "no strided product is the same: it has stride 1, dilation*(k-1) >= padding, no output_padding";
  if (!strided_direct_refusal(*form).empty()) return "positions of x do not lie side by side, or reach 2^30";
  const StridedConfig c = plan_flipped(*form, device);
  if (core::Size(p.n) * p.groups * c.row_tiles * c.parts > kMaxBlocks) return "more than 2^31 pieces";
  return "";
}

plan::Support supports(const Problem& p, const DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = refusal(p, device); !words.empty()) return plan::Support::no(words);
  if (options.force_kernel == kSimtFlipped.name) return plan::Support::yes();
  return supports_choice(kSimtFlipped, p, device, options);
}

}  // namespace
}  // namespace simt

const plan::KernelEntry kSimtFlipped = {.name = "cuda.simt.flipped",
                                        .summary = "few channels at stride 1, as a strided product",
                                        .device = core::DeviceKind::cuda,
                                        .supports = simt::supports,
                                        .make = simt::make_kernel<simt::FlippedKernel>};

}  // namespace tconv::cuda
