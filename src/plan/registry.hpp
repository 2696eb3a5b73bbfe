#pragma once

#include <span>

#include "plan/kernel_entry.hpp"

namespace tconv::plan {

// THE ordered list: the planner takes the first entry of the device that supports the problem. The float64
// reference is last.
std::span<const KernelEntry* const> registry();

}  // namespace tconv::plan
