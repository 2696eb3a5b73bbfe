#pragma once

#include <span>

#include "plan/kernel_entry.hpp"

namespace tconv::plan {

// THE ordered list: the planner takes the first entry of the device that supports the problem. The float64
// reference is last.
std::span<const KernelEntry* const> registry();

// Copies within the memory of a device; on CUDA as work of the stream.
core::Status copy_on(const core::DeviceInfo& device, void* to, const void* from, std::size_t bytes,
                     void* stream);

}  // namespace tconv::plan
