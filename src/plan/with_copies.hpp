// Operands that are not contiguous: on CUDA, a copy that is, and behind it the kernel that takes the problem
// so. Where positions do not lie side by side (channels-last tensors), kernels that read rows take a sector
// of 32 bytes for each element, and most tensor kernels refuse; some refuse other steps too.
#pragma once

#include <memory>

#include "plan/kernel_entry.hpp"

namespace tconv::plan {

// Whether positions of an operand that the operation reads do not lie side by side.
bool has_gaps(const core::Problem& problem);

// The bytes of the operands that are copied, 0 if there is nothing to copy: those with gaps or, if none has
// any, all that are not contiguous.
int64_t copied_bytes(const core::Problem& problem);

// Whether copies are to be thought of: there is something to copy, the device's memory has room, and y is
// read for the most part. (Expanded tensors, whose steps are 0, may have more elements than memory; and where
// the stride is far beyond the kernel, hardly any of y is read.)
bool may_copy(const core::Problem& problem, const core::DeviceInfo& device);

// The same problem on the copies.
core::Problem on_copies(const core::Problem& problem);

// Milliseconds that the copies take.
double copies_ms(const core::Problem& problem, const core::DeviceInfo& device);

// kernel: for on_copies(problem). The workspace has the copies first.
std::unique_ptr<const Kernel> with_copies(const core::Problem& problem, const core::DeviceInfo& device,
                                          std::unique_ptr<const Kernel> kernel);

}  // namespace tconv::plan
