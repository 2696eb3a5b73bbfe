// What the planner knows about a device. Planning is a pure function of (Problem, DeviceInfo, PlanOptions),
// so a plan for a GPU that is not present can be made and explained.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace tconv::core {

enum class DeviceKind : int32_t { cpu, cuda };

struct DeviceInfo {
  DeviceKind kind = DeviceKind::cpu;
  std::string name;
  bool present = true;  // false: a named device; plans for it are explained, not run
  int index = 0;        // CUDA ordinal

  // CPU
  int threads = 1;   // cores that this process may use
  std::string simd;  // SIMD target in use, e.g. "AVX3_SPR"
  int vector_bytes = 16;
  bool tiles = false;            // AMX: products of bf16 in tiles
  int64_t last_cache_bytes = 0;  // of the last cache before memory; 0: unknown
  Status usable;                 // if not ok, planning refuses with its message

  // CUDA
  int sm = 0;  // 90 for compute capability 9.0
  int sm_count = 0;
  int64_t shared_per_block = 0;  // opt-in limit, bytes
  int64_t shared_per_sm = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  // Attainable rates for the floor and the cost model: measured if the table says so, else from the
  // datasheet.
  double copy_gbps = 0;  // bytes read plus written, 1e9/s
  double fp32_gflops = 0, fp64_gflops = 0, tf32_gflops = 0, half_gflops = 0;
};

// "h200", "h100", "a100", "l4", "t4", "v100", ... ; unknown names are refused with the list.
Result<DeviceInfo> named_device(std::string_view name);
const std::vector<DeviceInfo>& named_devices();

}  // namespace tconv::core
