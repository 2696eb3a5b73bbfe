#include "cuda/simt/weight_staged.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/host/by_dtype.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/simt/problem_class.hpp"
#include "cuda/simt/split_weight.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::Problem;
using core::Status;
using plan::Support;

class Kernel final : public SplitWeightKernel<StagedPlan, StagedFunctions> {
 public:
  Kernel(const Problem& problem, const core::DeviceInfo& device, const StagedPlan& plan)
      : SplitWeightKernel(problem, device, plan,
                          by_dtype<StagedFunctions (*)()>(problem.dtype, staged_functions_f32, nullptr,
                                                          staged_functions_f16, staged_functions_bf16)()) {}

  std::string describe() const override {
    const StagedParams& k = plan_.params;
    return "a block " + std::to_string(k.rows) + " x " + std::to_string(k.columns) +
           " (ci x (co,k)), a thread " + thread_text() + ", " + tiles_text() + tf32_words(problem_);
  }
  std::vector<plan::StageLine> stages() const override {
    const StagedParams& k = plan_.params;
    const std::string segment = std::to_string(1 << k.segment_log2);
    return {
        {"schedule", "a block a tile of " + std::to_string(k.tiles) + " and split of " +
                         std::to_string(k.splits) + ", of " + std::to_string(k.split_segments) +
                         " segments of " + segment + " positions of a sample"},
        {"source", "x of " + std::to_string(k.rows) + " ci, dy of " + std::to_string(k.couts) + " co in " +
                       std::to_string(k.phases) + " phases: " + std::to_string(k.chunk_segments) +
                       " segments in shared memory, the next on their way; any strides"},
        {"operand",
         size_of(problem_.dtype) == 2 ? "widened in registers on its way to shared memory" : "as it is"},
        {"product", "fused multiply-adds, a lane a position, a thread " + thread_text() + ", " +
                        std::to_string(k.slices) + " warps share a tile; a tree adds the lanes"},
        epilogue_line(problem_),
        writer_line("from shared memory, neighbouring threads neighbouring outputs", k.splits)};
  }

  std::string where(int64_t element) const override {
    const StagedSum at = staged_sum(plan_, element);
    return block_text(element, at.tile) + ", warp " + std::to_string(at.warp) + ", sum " +
           std::to_string(at.sum) + " of its lanes";
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    return run_as(kSimtWeightStaged.name, functions_.tiles[plan_.tile], plan_.threads, operands, context,
                  plan_.shared_bytes);
  }

 private:
  std::string thread_text() const {
    const StagedTile& tile = kStagedTileTable[plan_.tile];
    return std::to_string(tile.rows) + " x " + std::to_string(tile.columns);
  }
};

std::string refusal(const Problem& p, const core::DeviceInfo& device) {
  if (std::string words = simt_refusal(p, device, core::Operation::weight); !words.empty()) return words;
  if (p.dtype == core::DType::f64) return "dtype f64: this kernel sums in float32";
  const core::Size reach = core::Size(p.stride) * (p.l + 16 * 1024) + core::Size(p.dilation) * p.k;
  if (reach >= kStagedReach || p.padding >= kStagedReach || p.lout() >= kStagedReach) {
    return "positions in dy beyond 2^30";
  }
  if (core::Size(p.n) * p.l >= kStagedReach / 2) return "2^29 positions or more";
  if (core::Size(p.cout_per_group()) * (p.k + 64) >= kStagedReach || p.cin_per_group() >= kStagedReach) {
    return "columns or rows beyond 2^30";
  }
  return "";
}

}  // namespace

std::unique_ptr<const plan::Kernel> staged_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                  const StagedPlan& plan) {
  return std::make_unique<Kernel>(problem, device, plan);
}

namespace {

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = refusal(p, device); !words.empty()) return Support::no(std::move(words));
  const StagedPlan plan = staged_plan(p, device);
  if (plan.blocks == 0) return Support::no("a window of dy does not fit shared memory");
  return supports_split(kSimtWeightStaged, plan, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions&) {
  return staged_kernel(problem, device, staged_plan(problem, device));
}

}  // namespace
}  // namespace simt

const plan::KernelEntry kSimtWeightStaged = {.name = "cuda.simt.weight_staged",
                                             .summary = "weight gradient of few channels at length",
                                             .device = core::DeviceKind::cuda,
                                             .supports = simt::supports,
                                             .make = simt::make,
                                             .y_steps = true};

}  // namespace tconv::cuda
