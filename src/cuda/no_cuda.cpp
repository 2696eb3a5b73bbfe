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

core::Status copy(const core::DeviceInfo&, void*, const void*, std::size_t, void*) {
  return {core::Code::unsupported, "device is cuda: this build of tconv holds no CUDA kernels"};
}

core::Status copy_rows(const core::Problem&, const core::DeviceInfo&, bool, const plan::Operands&, void*,
                       const plan::RunContext&) {
  return {core::Code::unsupported, "device is cuda: this build of tconv holds no CUDA kernels"};
}

const char* build_text() {
  return "without CUDA";
}

}  // namespace tconv::cuda
