#include "cpu/common/last_cache.hpp"

#include <fstream>
#include <string>

#include "core/checked.hpp"

namespace tconv::cpu {

// sysconf is no help: in a virtual machine it may add up caches of cores that the machine does not have.
int64_t last_cache_bytes() {
  int64_t bytes = 0;
  int highest = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    std::ifstream level_file(folder + "/level"), size_file(folder + "/size");
    int level = 0;
    int64_t kib = 0;
    if (!(level_file >> level) || !(size_file >> kib) || level <= highest) continue;
    highest = level;
    bytes = kib << 10;
  }
  return bytes;
}

bool streams_output(const core::Problem& problem, const core::DeviceInfo& device) {
  if (device.last_cache_bytes == 0) return false;
  const auto element = static_cast<int64_t>(size_of(problem.dtype));
  return core::Size(problem.output_elements()) * element * 2 >= device.last_cache_bytes * 15 / 16;
}

}  // namespace tconv::cpu
