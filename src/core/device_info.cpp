#include "core/device_info.hpp"

namespace tconv::core {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

DeviceInfo gpu(const char* name, int sm, int sm_count, int64_t shared_block_kib, int64_t shared_sm_kib,
               int64_t l2_mib, int64_t memory_gib) {
  DeviceInfo d;
  d.kind = DeviceKind::cuda;
  d.name = name;
  d.present = false;
  d.sm = sm;
  d.sm_count = sm_count;
  d.shared_per_block = shared_block_kib * kKiB;
  d.shared_per_sm = shared_sm_kib * kKiB;
  d.l2_bytes = l2_mib * kMiB;
  d.memory_bytes = memory_gib * kGiB;
  return d;
}

DeviceInfo rates(DeviceInfo d, double copy, double fp32, double fp64, double tf32, double half) {
  d.copy_gbps = copy;
  d.fp32_gflops = fp32 * 1e3;
  d.fp64_gflops = fp64 * 1e3;
  d.tf32_gflops = tf32 * 1e3;
  d.half_gflops = half * 1e3;
  return d;
}

}  // namespace

const std::vector<DeviceInfo>& named_devices() {
  // Rates: copy GB/s, then TFLOP/s of fp32, fp64, tf32, half (0: no such unit). h200 is measured (random
  // data, 8192-cubed products; fp64 on tensor cores). The others are 0.9 of the datasheet's bandwidth and
  // 0.75 of its dense rates, which is precise enough to say which term binds.
  static const std::vector<DeviceInfo> devices = {
      rates(gpu("h200", 90, 132, 227, 228, 60, 140), 4270, 50.6, 55, 400, 760),
      rates(gpu("h100", 90, 132, 227, 228, 50, 80), 3000, 50.6, 50, 370, 740),
      rates(gpu("a100", 80, 108, 163, 164, 40, 80), 1830, 14.6, 14.6, 117, 234),
      rates(gpu("b200", 100, 148, 227, 228, 126, 180), 7200, 56, 28, 820, 1650),
      rates(gpu("l40s", 89, 142, 99, 100, 96, 48), 780, 68, 1.1, 137, 271),
      rates(gpu("l4", 89, 58, 99, 100, 48, 24), 270, 22, 0.35, 45, 90),
      rates(gpu("rtx4090", 89, 128, 99, 100, 72, 24), 900, 62, 0.97, 62, 124),
      rates(gpu("rtx3090", 86, 82, 99, 100, 6, 24), 840, 26, 0.4, 26, 53),
      rates(gpu("t4", 75, 40, 64, 64, 4, 16), 280, 6.1, 0.19, 0, 48),
      rates(gpu("v100", 70, 80, 96, 96, 6, 32), 810, 11.8, 5.8, 0, 94),
  };
  return devices;
}

Result<DeviceInfo> named_device(std::string_view name) {
  std::string known;
  for (const DeviceInfo& device : named_devices()) {
    if (device.name == name) return device;
    known += (known.empty() ? "" : ", ") + device.name;
  }
  return Status(Code::invalid_argument,
                "device '" + std::string(name) + "' is not known; the known ones are " + known);
}

}  // namespace tconv::core
