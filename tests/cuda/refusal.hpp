// What the tests of plans share: devices that need not be here, and a kernel's refusals.
#pragma once

#include <string>

#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda_test {

inline core::DeviceInfo device(const char* name) {
  return core::named_device(name).value();
}

// Why a kernel refuses a problem on a device; empty where it does not.
inline std::string refusal(const plan::KernelEntry& entry, const std::string& text, const char* name,
                           bool forced) {
  plan::PlanOptions options;
  if (forced) options.force_kernel = entry.name;
  const plan::Support support = entry.supports(core::parse(text).value(), device(name), options);
  return support.ok ? "" : support.reason;
}

}  // namespace tconv::cuda_test
