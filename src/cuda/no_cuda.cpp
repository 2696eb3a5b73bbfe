#include "cuda/entries.hpp"

namespace tconv::cuda {

std::span<const plan::KernelEntry* const> entries() {
  return {};
}

core::Result<core::DeviceInfo> device_info(int) {
  return core::Status(core::Code::unsupported, "device is cuda: this build of tconv holds no CUDA kernels");
}

std::vector<core::DeviceInfo> devices() {
  return {};
}

const char* build_text() {
  return "without CUDA";
}

}  // namespace tconv::cuda
