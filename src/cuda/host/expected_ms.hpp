// What the kernels of a transposed or strided product are expected to take, on one scale.
#pragma once

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// Milliseconds that an entry's plan takes for a problem that it can run, with half the time of packing
// weights, since some callers pack once and some in each call. 0: the entry is not compared.
double expected_ms(const plan::KernelEntry& entry, const core::Problem& problem,
                   const core::DeviceInfo& device, bool batch_invariant);

// A time that it is not below, found without a plan; 0: there is none that is known.
double least_expected_ms(const plan::KernelEntry& entry, const core::Problem& problem,
                         const core::DeviceInfo& device);

// The full rate of tensor cores for 16-bit types, tf32, and ieee as three products; not for f64.
double tensor_gflops(const core::Problem& problem, const core::DeviceInfo& device);

// The time for the problem's bytes at the rate of a copy.
double memory_ms(const core::Problem& problem, const core::DeviceInfo& device);

// How much longer an SM's multiply-adds take than those of an H200.
double slower(const core::DeviceInfo& device);

}  // namespace tconv::cuda
