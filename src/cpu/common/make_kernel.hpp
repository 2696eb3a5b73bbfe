// make() for the entries whose kernel is configured from a problem and a number of threads, and for those
// that need the device too.
#pragma once

#include <algorithm>
#include <memory>
#include <type_traits>

#include "plan/kernel_entry.hpp"

namespace tconv::cpu {

template <class Kernel>
std::unique_ptr<const plan::Kernel> make_kernel(const core::Problem& problem, const core::DeviceInfo& device,
                                                const plan::PlanOptions& options) {
  const int threads = std::max(1, options.threads);
  if constexpr (std::is_constructible_v<Kernel, const core::Problem&, const core::DeviceInfo&, int>) {
    return std::make_unique<Kernel>(problem, device, threads);
  } else {
    return std::make_unique<Kernel>(problem, threads);
  }
}

}  // namespace tconv::cpu
