// What the simt kernels of the weight gradient have in common: a grid of tiles and of splits of the positions
// (n, i), then the ordered sum of the splits.
#pragma once

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "cuda/plan/report.hpp"

namespace tconv::cuda::simt {

// The positions that the gradient sums over.
inline int64_t positions_of(const core::Problem& p) {
  return p.lout() == 0 ? 0 : p.n * p.l;
}

// Cuts the positions into `splits` parts, or fewer if those are even. k.tiles and k.elements must be set.
template <class Plan>
void set_splits(Plan& plan, const core::Problem& p, int64_t splits) {
  auto& k = plan.params;
  k.positions = positions_of(p);
  k.split_positions = std::max<int64_t>(1, core::ceil_div(k.positions, splits));
  k.splits = std::max<int64_t>(1, core::ceil_div(k.positions, k.split_positions));
  plan.blocks = k.tiles * k.splits;
  const std::size_t sum = p.dtype == core::DType::f64 ? 8 : 4;
  if (k.splits > 1) plan.part_bytes = static_cast<std::size_t>(k.splits * k.elements) * sum;
}

// Whether the planner takes a kernel that can run the problem by this plan.
template <class Plan>
plan::Support supports_split(const plan::KernelEntry& entry, const Plan& plan, const core::Problem& p,
                             const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (plan.blocks == 0 || plan.blocks > kMaxBlocks)
    return plan::Support::no("more tiles than a grid has blocks");
  if (options.force_kernel == entry.name) return plan::Support::yes();
  return supports_choice(entry, p, device, options);
}

template <class Plan, class Functions>
class SplitWeightKernel : public plan::Kernel {
 public:
  SplitWeightKernel(const core::Problem& problem, const core::DeviceInfo& device, const Plan& plan,
                    const Functions& functions)
      : problem_(problem), device_(device), plan_(plan), functions_(functions) {}

  std::size_t workspace_bytes() const override { return plan_.part_bytes; }
  double predicted_ms() const override { return 1e3 * plan_.seconds; }

 protected:
  std::string tiles_text() const {
    std::string out = std::to_string(plan_.params.tiles) + " tiles";
    if (plan_.params.splits > 1) {
      out += ", positions split " + std::to_string(plan_.params.splits) + " ways and summed in order";
    }
    return out;
  }
  plan::StageLine schedule_line() const {
    return {"schedule", "a block a tile of " + std::to_string(plan_.params.tiles) + " and split of " +
                            std::to_string(plan_.params.splits) + ", of " +
                            std::to_string(plan_.params.split_positions) + " positions (n, i)"};
  }
  std::string block_text(int64_t element, int64_t tile) const {
    return element_text(problem_, element) + "; " +
           blocks_text(tile, plan_.params.tiles, plan_.params.splits);
  }
  // A single split stores dw itself.
  template <class Function>
  core::Status run_as(const char* name, Function function, int threads, const plan::Operands& operands,
                      const plan::RunContext& context, std::size_t shared_bytes = 0) const {
    const Launcher launcher(name, problem_, device_, context);
    core::Status status = launcher.check(operands);
    if (!status.ok()) return status;
    auto params = plan_.params;
    params.x = operands.x;
    params.y = operands.grad_output;
    params.output = operands.output;
    params.parts = params.splits > 1 ? context.workspace : nullptr;
    status = launcher.run(function, {plan_.blocks, threads, shared_bytes}, params);
    if (!status.ok() || params.splits == 1) return status;
    return sum_partials(launcher, problem_.dtype, Parts::accumulator,
                        flat_sum_params(params.parts, params.output, params.elements, params.splits));
  }

  core::Problem problem_;
  core::DeviceInfo device_;
  Plan plan_;
  Functions functions_;
};

}  // namespace tconv::cuda::simt
