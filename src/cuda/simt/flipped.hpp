// cuda.simt.flipped: transposed products of stride 1, as strided ones with the taps in reverse:
//
//   y[co, o] = sum over ci, k of x[ci, o + padding - dilation*k] * w[ci, co, k]
//            = sum over ci, k of x[ci, o - (dilation*(K-1) - padding) + dilation*k] * w[ci, co, K-1-k]
//
// which is strided_direct.cuh, whose threads read x where it lies and wait for nobody, or
// strided_sliding.cuh, with other steps of the weights. For few channels a group, where kernels of tiles
// multiply mostly zeros.
#pragma once

#include <memory>
#include <optional>

#include "core/device_info.hpp"
#include "cuda/simt/strided.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSimtFlipped;

namespace simt {

// The strided product whose dx is the problem's y, and whose dy is its x; none if it has none.
std::optional<core::Problem> flipped_form(const core::Problem& p);

// How that product is cut: direct or sliding, as is expected to be faster.
StridedConfig plan_flipped(const core::Problem& form, const core::DeviceInfo& device);
// For a configuration of the form of one of these ways.
std::unique_ptr<const plan::Kernel> flipped_kernel(const core::Problem& problem,
                                                   const core::DeviceInfo& device,
                                                   const StridedConfig& config);

// Predicted milliseconds of a problem that the kernel can take.
double flipped_ms(const core::Problem& p, const core::DeviceInfo& device);

}  // namespace simt
}  // namespace tconv::cuda
