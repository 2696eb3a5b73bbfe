#include "devices.hpp"

#include "cpu/threads/pool.hpp"
#include "cuda/entries.hpp"
#include "words.hpp"

namespace tconv::cli {

core::Result<core::DeviceInfo> device_of(const std::string& name) {
  if (name == "cpu") return cpu::host_device();
  if (name == "cuda") return cuda::device_info(0);
  std::vector<std::string> names = {"cpu", "cuda"};
  for (const core::DeviceInfo& device : core::named_devices()) {
    if (device.name == name) return device;
    names.push_back(device.name);
  }
  return core::Status(core::Code::invalid_argument,
                      "device '" + name + "' is not known; the devices are " + listed(names));
}

core::Result<std::unique_ptr<judge::Target>> target_of(const std::string& name, int threads,
                                                       std::size_t memory_limit) {
  // Otherwise every plan would be refused with the same message.
  if (name == "cpu" && !cpu::host_device().usable.ok()) return cpu::host_device().usable;
  if (name == "cpu") return judge::cpu_target(threads, memory_limit);
  if (name == "cuda") return judge::cuda_target(0, memory_limit);
  return core::Status(core::Code::invalid_argument,
                      "device '" + name + "' cannot run kernels here: cpu and cuda do");
}

}  // namespace tconv::cli
