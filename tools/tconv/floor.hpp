// The least time that a problem can take: its operations at the rate of a multiply-add loop, or its bytes at
// the rate of a copy, whichever is longer. Both rates are measured on the spot. For bf16 on a CPU with AMX
// the rate is that of its tile products.
#pragma once

#include <cstddef>
#include <string>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "judge/target.hpp"

namespace tconv::cli {

struct Rates {
  double gflops = 0;  // of the arithmetic that the problem's dtype and precision use
  double gbps = 0;    // bytes read plus bytes written
};

// The rates of a CPU with this many threads; takes tens of milliseconds. copy_bytes: bytes read plus written
// by one copy, so that the rate belongs to data of the problem's size. Copies rotate over as many buffers as
// the caller's data do.
Rates measure_cpu(core::DType dtype, int threads, std::size_t copy_bytes, int buffers);

// The rates of a GPU according to its DeviceInfo: for a plan.
Rates rates_of(const core::DeviceInfo& gpu, const core::Problem& problem);

// The rates of a GPU for a measurement: measured, except for tensor cores, whose rates come from the table.
// ieee float32 runs on multiply-adds or as three products of 16-bit parts, whichever is faster.
Rates gpu_rates(const core::DeviceInfo& gpu, const core::Problem& problem, const judge::Attained& attained);

struct Floor {
  double compute = 0, memory = 0;  // seconds
  double seconds() const { return compute > memory ? compute : memory; }
  const char* binds() const { return compute > memory ? "arithmetic" : "memory"; }
};
Floor floor_of(const core::Work& work, const Rates& rates);

}  // namespace tconv::cli
