#pragma once

#include <string>

#include "core/device_info.hpp"
#include "cuda/host/runtime.hpp"

namespace tconv::cuda {

// Why the kernels of this folder cannot run here, or "".
inline std::string no_wgmma(const core::DeviceInfo& device) {
  if (device.sm != 90) return "compute capability not 9.0: no wgmma";
  if (!built_for_sm90a()) return "this build has no code for sm_90a";
  return "";
}

}  // namespace tconv::cuda
