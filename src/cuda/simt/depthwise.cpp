#include "cuda/simt/depthwise.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/simt/depthwise_flat.hpp"
#include "cuda/simt/depthwise_plan.hpp"
#include "cuda/simt/depthwise_wide.hpp"
#include "cuda/simt/problem_class.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::DType;
using core::Problem;
using core::Status;
using plan::PlanOptions;

DepthwiseParams rows_params(const DepthwiseConfig& c, const Problem& p, const plan::Operands& operands) {
  DepthwiseParams a{};
  set_transposed_operands(a, p, operands);
  a.cout = p.cout, a.cout_per_group = p.cout_per_group();
  a.windows = c.windows, a.parts = c.parts, a.tiles = c.blocks;
  a.cin_per_group = static_cast<int32_t>(p.cin_per_group());
  a.k = static_cast<int32_t>(p.k);
  a.blocks_of_taps = static_cast<int32_t>(c.blocks_of_taps);
  a.values = static_cast<int32_t>(c.values), a.words = static_cast<int32_t>(c.words);
  a.pitch = static_cast<int32_t>(c.pitch);
  a.weights_pitch = static_cast<int32_t>(c.weights_pitch);
  a.small = a.tiles < (int64_t{1} << 31) && p.cout < (int64_t{1} << 31);
  if (a.small) {
    a.by_parts = Divisor::of(static_cast<uint32_t>(a.parts));
    a.by_cout = Divisor::of(static_cast<uint32_t>(a.cout));
    a.by_cout_per_group = Divisor::of(static_cast<uint32_t>(a.cout_per_group));
  }
  return a;
}

DepthwiseFlatParams flat_params(const Problem& p, const plan::Operands& operands) {
  DepthwiseFlatParams a{};
  set_transposed_operands(a, p, operands);
  const int64_t element = static_cast<int64_t>(size_of(p.dtype));
  a.w_channel = p.cout_per_group() * p.k;
  // Steps wrap at 2^32 where they are longer, which only those that are never taken can be.
  a.x_group = static_cast<uint32_t>(p.cin_per_group() * a.x_channel);
  a.w_group = static_cast<uint32_t>((p.cin_per_group() - 1) * a.w_channel);
  a.total = static_cast<int32_t>(p.y_elements());
  a.past = static_cast<int32_t>(static_cast<int64_t>(reinterpret_cast<uintptr_t>(a.y) % 16) / element);
  a.n = static_cast<int32_t>(p.n), a.cout = static_cast<int32_t>(p.cout);
  a.cout_per_group = static_cast<int32_t>(p.cout_per_group());
  a.cin_per_group = static_cast<int32_t>(p.cin_per_group());
  a.k = static_cast<int32_t>(p.k), a.stride = static_cast<int32_t>(p.stride);
  a.taps = a.k / a.stride, a.more = a.k % a.stride;
  a.steps = static_cast<int32_t>(std::min(ceil_div(p.k, p.stride), p.l));
  a.first_q = static_cast<int32_t>(p.padding / p.stride);
  a.first_r = static_cast<int32_t>(p.padding % p.stride);
  a.by_lout = Divisor::of(static_cast<uint32_t>(p.lout()));
  a.by_cout = Divisor::of(static_cast<uint32_t>(p.cout));
  a.by_cout_per_group = Divisor::of(static_cast<uint32_t>(p.cout_per_group()));
  a.by_stride = Divisor::of(static_cast<uint32_t>(p.stride));
  return a;
}

DepthwiseWideParams wide_params(const DepthwiseConfig& c, const Problem& p, const plan::Operands& operands) {
  DepthwiseWideParams a{};
  a.flat = flat_params(p, operands);
  a.live = static_cast<int32_t>(c.live), a.columns = static_cast<int32_t>(c.live / p.stride);
  a.tiles = static_cast<int32_t>(c.tiles), a.cout_blocks = static_cast<int32_t>(c.cout_blocks);
  a.by_tiles = Divisor::of(static_cast<uint32_t>(c.tiles));
  a.by_cout_blocks = Divisor::of(static_cast<uint32_t>(c.cout_blocks));
  a.by_groups = Divisor::of(static_cast<uint32_t>(p.groups));
  return a;
}

class DepthwiseKernel final : public plan::Kernel {
 public:
  DepthwiseKernel(const Problem& problem, const DeviceInfo& device, const DepthwiseConfig& config)
      : problem_(problem), device_(device), config_(config) {}

  std::string describe() const override { return config_.text() + tf32_words(problem_); }
  std::vector<plan::StageLine> stages() const override { return simt::stages(config_, problem_); }
  std::string where(int64_t element) const override { return simt::where(config_, problem_, element); }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtDepthwise.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    // A thread of these knows which of its outputs have products: no launch stores the others' bias again.
    if (config_.way == DepthwiseWay::flat) return run_flat(launcher, operands);
    if (config_.way == DepthwiseWay::wide) {
      return launcher.run(depthwise_wide_function(problem_.dtype, config_.run),
                          {config_.blocks, static_cast<int>(config_.threads)},
                          wide_params(config_, problem_, operands));
    }
    const bool words = config_.way == DepthwiseWay::words;
    const Grid grid{std::min(config_.blocks, kMaxBlocks), static_cast<int>(config_.threads),
                    static_cast<std::size_t>(config_.shared_bytes)};
    status = launcher.run(depthwise_function(problem_.dtype, problem_.stride, words), grid,
                          rows_params(config_, problem_, operands));
    return status.ok() ? store_bias_alone(launcher, problem_, operands, BiasStored::none) : status;
  }

 private:
  Status run_flat(const Launcher& launcher, const plan::Operands& operands) const {
    const DepthwiseFlatParams a = flat_params(problem_, operands);
    const int64_t outputs = config_.run * config_.threads;
    return launcher.run(depthwise_flat_function(problem_.dtype, problem_.lout()),
                        {ceil_div(int64_t{a.total} + a.past, outputs), static_cast<int>(config_.threads)}, a);
  }

  Problem problem_;
  DeviceInfo device_;
  DepthwiseConfig config_;
};

std::string refusal(const Problem& p, const DeviceInfo& device) {
  if (std::string words = simt_refusal(p, device); !words.empty()) return words;
  if (p.dtype == DType::f64) return "dtype f64: this kernel is for f32, f16 and bf16";
  if (p.dilation != 1 && p.k > 1)
    return "dilation " + std::to_string(p.dilation) + ": this kernel is for dilation 1";
  if (p.cin_per_group() > kDepthwiseMaxCin) {
    return "cin " + std::to_string(p.cin_per_group()) + " a group: this kernel is for " +
           std::to_string(kDepthwiseMaxCin) + " at most";
  }
  const std::string flat = depthwise_flat_refusal(p);
  if (flat.empty()) return "";
  const std::string rows = depthwise_rows_refusal(p, device);
  return rows.empty() ? "" : rows + " where " + flat;
}

plan::Support supports(const Problem& p, const DeviceInfo& device, const PlanOptions& options) {
  if (std::string words = refusal(p, device); !words.empty()) return plan::Support::no(words);
  if (options.force_kernel == kSimtDepthwise.name) return plan::Support::yes();
  return supports_choice(kSimtDepthwise, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& p, const DeviceInfo& device, const PlanOptions&) {
  return depthwise_kernel(p, device, plan_depthwise(p, device));
}

}  // namespace

std::unique_ptr<const plan::Kernel> depthwise_kernel(const Problem& p, const DeviceInfo& device,
                                                     const DepthwiseConfig& config) {
  return std::make_unique<DepthwiseKernel>(p, device, config);
}

}  // namespace simt

const plan::KernelEntry kSimtDepthwise = {"cuda.simt.depthwise", "few channels a group, bound by memory",
                                          core::DeviceKind::cuda, simt::supports, simt::make};

}  // namespace tconv::cuda
