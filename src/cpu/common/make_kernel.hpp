// The make() of the entries whose kernel is configured from a problem and a number of threads.
#pragma once

#include <algorithm>
#include <memory>

#include "plan/kernel_entry.hpp"

namespace tconv::cpu {

template <class Kernel>
std::unique_ptr<const plan::Kernel> make_kernel(const core::Problem& problem, const core::DeviceInfo&,
                                                const plan::PlanOptions& options) {
  return std::make_unique<Kernel>(problem, std::max(1, options.threads));
}

}  // namespace tconv::cpu
