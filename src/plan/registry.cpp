#include "plan/registry.hpp"

#include <cstring>
#include <vector>

#include "cpu/amx/contract.hpp"
#include "cpu/dense/kernel.hpp"
#include "cpu/depthwise/contract.hpp"
#include "cpu/dots/contract.hpp"
#include "cpu/longk/contract.hpp"
#include "cpu/narrow/contract.hpp"
#include "cpu/outer/contract.hpp"
#include "cpu/short/contract.hpp"
#include "cpu/strided/contract.hpp"
#include "cpu/strided_depthwise/contract.hpp"
#include "cpu/weight/contract.hpp"
#include "cuda/entries.hpp"
#include "reference/reference.hpp"

namespace tconv::plan {

std::span<const KernelEntry* const> registry() {
  static const std::vector<const KernelEntry*> list = [] {
    std::vector<const KernelEntry*> entries;
    for (const KernelEntry* entry : cuda::entries()) entries.push_back(entry);
    entries.push_back(&cpu::amx::kEntry);
    entries.push_back(&cpu::depthwise::kEntry);
    entries.push_back(&cpu::longk::kEntry);
    entries.push_back(&cpu::short_l::kEntry);
    entries.push_back(&cpu::narrow::kEntry);
    entries.push_back(&cpu::dense::kEntry);
    entries.push_back(&cpu::dots::kEntry);
    entries.push_back(&cpu::strided_depthwise::kEntry);
    entries.push_back(&cpu::strided::kEntry);
    entries.push_back(&cpu::outer::kEntry);
    entries.push_back(&cpu::weight::kEntry);
    entries.push_back(&cpu::weight::kBiasEntry);
    entries.push_back(&reference::kEntry);
    return entries;
  }();
  return list;
}

core::Status copy_on(const core::DeviceInfo& device, void* to, const void* from, std::size_t bytes,
                     void* stream) {
  if (bytes == 0) return {};
  if (device.kind == core::DeviceKind::cuda) return cuda::copy(device, to, from, bytes, stream);
  std::memcpy(to, from, bytes);
  return {};
}

}  // namespace tconv::plan
