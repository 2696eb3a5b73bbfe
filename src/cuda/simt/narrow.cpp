#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/simt/narrow_plan.hpp"
#include "cuda/simt/problem_class.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::DeviceInfo;
using core::Problem;
using plan::PlanOptions;

NarrowFunction function_of(const Problem& p, const NarrowConfig& c) {
  for (const NarrowCompiled& each : narrow_compiled(p)) {
    if (each.shape == c.shape && each.ring == c.ring) return each.function;
  }
  return nullptr;
}

}  // namespace

core::Status launch_narrow(const Launcher& launcher, const Problem& p, const NarrowConfig& c,
                           const plan::Operands& operands, void* partial) {
  NarrowParams a{};
  set_transposed_operands(a, p, operands);
  a.partial = partial;
  a.q_first = c.q_first, a.q_tiles = c.q_tiles, a.co_blocks = c.co_blocks;
  a.residue_groups = c.residue_groups;
  a.groups = p.groups, a.rows = p.n * p.groups;
  a.tiles = a.q_tiles * a.co_blocks * a.residue_groups * a.rows * c.splits;
  a.row_elements = p.y_elements();
  a.cin_per_group = static_cast<int32_t>(p.cin_per_group());
  a.cout_per_group = static_cast<int32_t>(p.cout_per_group());
  a.k = static_cast<int32_t>(p.k), a.stride = static_cast<int32_t>(p.stride);
  a.taps = static_cast<int32_t>(c.taps);
  a.splits = static_cast<int32_t>(c.splits), a.cin_per_split = static_cast<int32_t>(c.cin_per_split);
  a.q_warps = c.q_warps, a.r_warps = c.r_warps, a.slice_warps = c.slice_warps;
  a.residues = c.residues, a.chunk = static_cast<int32_t>(c.chunk);
  a.by_residues = Divisor::of(static_cast<uint32_t>(c.residues));
  a.by_taps_residues = Divisor::of(static_cast<uint32_t>(c.taps * c.residues));
  a.ring_offset = static_cast<int32_t>(c.ring_offset);
  a.direct = c.direct, a.keep = c.keep;
  a.turned = p.stride % 2 == 0 && p.padding % p.stride == p.stride / 2;
  // Where weights stay, a block walks over many tiles.
  const Grid grid{grid_blocks(c, p), c.threads(), static_cast<std::size_t>(c.shared_bytes)};
  return launcher.run(function_of(p, c), grid, a);
}

namespace {

class NarrowKernel final : public plan::Kernel {
 public:
  NarrowKernel(const Problem& problem, const DeviceInfo& device, const PlanOptions& options)
      : problem_(problem),
        device_(device),
        config_(plan_narrow(problem, device, options.batch_invariant, false)) {}

  std::string describe() const override { return config_.text() + tf32_words(problem_); }
  std::vector<plan::StageLine> stages() const override { return simt::stages(config_, problem_); }
  std::string where(int64_t element) const override { return simt::where(config_, problem_, element); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtNarrow.name, problem_, device_, context);
    core::Status status = launcher.check(operands);
    if (status.ok()) status = launch_narrow(launcher, problem_, config_, operands, nullptr);
    return status.ok() ? store_bias_alone(launcher, problem_, operands, BiasStored::none) : status;
  }

 private:
  Problem problem_;
  DeviceInfo device_;
  NarrowConfig config_;
};

plan::Support supports(const Problem& p, const DeviceInfo& device, const PlanOptions& options) {
  if (std::string words = narrow_refusal(p, device); !words.empty()) return plan::Support::no(words);
  if (options.force_kernel == kSimtNarrow.name) return plan::Support::yes();
  return supports_choice(kSimtNarrow, p, device, options);
}

}  // namespace
}  // namespace simt

const plan::KernelEntry kSimtNarrow = {"cuda.simt.narrow", "few input or output channels, taps in registers",
                                       core::DeviceKind::cuda, simt::supports,
                                       simt::make_kernel<simt::NarrowKernel>};

}  // namespace tconv::cuda
