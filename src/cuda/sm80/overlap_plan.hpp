// Which tiles and splits cuda.sm80.overlap takes for a problem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "cuda/device/phases.hpp"
#include "cuda/sm80/overlap.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// Printable and comparable: what a plan chooses.
struct OverlapConfig {
  int tile = 0;    // of kOverlapTiles
  int splits = 1;  // of the depth: blocks of a cluster
  bool operator==(const OverlapConfig&) const = default;
};

struct OverlapPlan {
  OverlapConfig config;
  Phases phases = {};
  OverlapParams params = {};  // without pointers
  int64_t blocks = 0;         // 0: it does not fit
  double ms = 0;              // by the model
};

// Empty, or the clause that refuses the problem.
std::string overlap_refusal(const core::Problem& problem, const core::DeviceInfo& device);

OverlapPlan overlap_plan_of(const core::Problem& problem, const core::DeviceInfo& device,
                            const OverlapConfig& config);
OverlapPlan overlap_plan(const core::Problem& problem, const core::DeviceInfo& device, bool batch_invariant);

// Null if the configuration does not fit.
std::unique_ptr<const plan::Kernel> overlap_kernel(const core::Problem& problem,
                                                   const core::DeviceInfo& device,
                                                   const OverlapConfig& config);

std::string describe(const OverlapPlan& plan, const core::Problem& problem);
std::vector<plan::StageLine> stages(const OverlapPlan& plan, const core::Problem& problem);

// The block that stores an output; if there are several splits, the first block of its cluster.
std::string where(const OverlapPlan& plan, const core::Problem& problem, int64_t element);

}  // namespace tconv::cuda
