// The least time that a problem can take: its operations at the rate of a multiply-add loop, its bytes at the
// rate of a copy, whichever is longer. Both rates are measured right then.
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

// A CPU's, for so many threads: tens of milliseconds. copy_bytes: read plus written by one copy, so that the
// rate is that of data of the problem's size; copies rotate over as many buffers as the caller's data do.
Rates measure_cpu(core::DType dtype, int threads, std::size_t copy_bytes, int buffers);

// A GPU's as its DeviceInfo has them: for a plan.
Rates rates_of(const core::DeviceInfo& gpu, const core::Problem& problem);

// A GPU's for a measurement: what was measured, and for tensor cores what is known of the device. ieee
// float32 runs on multiply-adds or as three products of 16-bit parts: whichever is faster.
Rates gpu_rates(const core::DeviceInfo& gpu, const core::Problem& problem, const judge::Attained& attained);

struct Floor {
  double compute = 0, memory = 0;  // seconds
  double seconds() const { return compute > memory ? compute : memory; }
  const char* binds() const { return compute > memory ? "arithmetic" : "memory"; }
};
Floor floor_of(const core::Work& work, const Rates& rates);

}  // namespace tconv::cli
