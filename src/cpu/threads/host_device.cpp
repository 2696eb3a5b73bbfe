#include "cpu/amx/tiles.hpp"
#include "cpu/common/last_cache.hpp"
#include "cpu/simd/dispatch.hpp"
#include "cpu/threads/pool.hpp"
#include "cpu/threads/usable_cores.hpp"

namespace tconv::cpu {
namespace {

core::DeviceInfo detect() {
  core::DeviceInfo device;
  device.name = "cpu";
  device.threads = usable_cores();
  device.simd = simd::target_name();
  device.vector_bytes = simd::vector_bytes();
  device.tiles = amx::tiles_in_use();
  device.last_cache_bytes = last_cache_bytes();
  device.usable = simd::target_status();
  return device;
}

}  // namespace

const core::DeviceInfo& host_device() {
  static const core::DeviceInfo device = detect();
  return device;
}

}  // namespace tconv::cpu
