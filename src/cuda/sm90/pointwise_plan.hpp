// Which tiles and splits cuda.sm90.pointwise takes for a problem. Plans are those of cuda.sm80.pointwise.
#pragma once

#include "cuda/sm80/pointwise_plan.hpp"
#include "cuda/sm90/pointwise.hpp"

namespace tconv::cuda {

// Empty, or the clause that refuses the problem.
std::string sm90_pointwise_refusal(const core::Problem& problem, const core::DeviceInfo& device);

PointwisePlan sm90_pointwise_plan_of(const core::Problem& problem, const core::DeviceInfo& device,
                                     const PointwiseConfig& config);
PointwisePlan sm90_pointwise_plan(const core::Problem& problem, const core::DeviceInfo& device,
                                  bool batch_invariant);

// Predicted milliseconds of a plan that fits.
double sm90_pointwise_ms(const PointwisePlan& plan, const core::Problem& problem,
                         const core::DeviceInfo& device);

// Null if the configuration does not fit.
std::unique_ptr<const plan::Kernel> sm90_pointwise_kernel(const core::Problem& problem,
                                                          const core::DeviceInfo& device,
                                                          const PointwiseConfig& config);

}  // namespace tconv::cuda
