// Which tiles and splits cuda.sm80.pointwise takes for a problem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "cuda/sm80/pointwise.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// Printable and comparable: what a plan chooses.
struct PointwiseConfig {
  int tile = 0;    // of kPointwiseTiles
  int splits = 1;  // of the depth: blocks of a cluster
  bool operator==(const PointwiseConfig&) const = default;
};

struct PointwisePlan {
  PointwiseConfig config;
  PointwiseParams params = {};  // without pointers
  bool turned = false;          // weights lie as w[c][r]
  int64_t blocks = 0;           // 0: it does not fit
  int64_t shared_bytes = 0;
  double ms = 0;  // by the model
};

// Empty, or the clause that refuses the problem.
std::string pointwise_refusal(const core::Problem& problem, const core::DeviceInfo& device);

PointwisePlan pointwise_plan_of(const core::Problem& problem, const core::DeviceInfo& device,
                                const PointwiseConfig& config);
PointwisePlan pointwise_plan(const core::Problem& problem, const core::DeviceInfo& device,
                             bool batch_invariant);

// Predicted milliseconds of a plan that fits.
double pointwise_ms(const PointwisePlan& plan, const core::Problem& problem, const core::DeviceInfo& device);

// The widest piece in which rows can be copied if their addresses and steps are multiples of `bytes`.
int pointwise_copy(int64_t bytes, int element);

// Null if the configuration does not fit.
std::unique_ptr<const plan::Kernel> pointwise_kernel(const core::Problem& problem,
                                                     const core::DeviceInfo& device,
                                                     const PointwiseConfig& config);

std::string describe(const PointwisePlan& plan, const core::Problem& problem);
std::vector<plan::StageLine> stages(const PointwisePlan& plan, const core::Problem& problem);

// The block that stores an output; if there are several splits, the first block of its cluster.
std::string where(const PointwisePlan& plan, const core::Problem& problem, int64_t element);

}  // namespace tconv::cuda
