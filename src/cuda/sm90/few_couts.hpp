// Which layers of fewer than 8 couts go to cuda.sm90.dense. The families that would take them otherwise ask
// here, too, so that exactly one accepts.
#pragma once

#include <algorithm>

#include "core/device_info.hpp"
#include "core/problem.hpp"

namespace tconv::cuda {

// Milliseconds of fused multiply-adds for few couts: 8 TFLOP/s where memory does not bind.
inline double few_couts_simt_ms(const core::Problem& p) {
  return core::work_of(p).flops / 8e9;
}

// Many channels, and more products than memory hides. On an H200, tf32 and bf16, cuda.simt.narrow against
// cuda.sm90.dense: n1 ci128 co4 l40775 k25 s7 103 and 24 us, 159 and 17; n1 ci128 co1 l194703 k24 s12 95 and
// 52, 165 and 37; n1 ci1024 co2 l110454 k5 s2 485 and 176, 475 and 143; n1 ci48 co3 l298669 k5 105 and 60;
// n1 ci24 co6 l75752 k16 s8 35 and 21, 87 and 11.
inline bool sm90_takes_few_couts(const core::Problem& problem, const core::DeviceInfo& device,
                                 bool batch_invariant) {
  core::Problem p = problem;
  if (batch_invariant) p.n = 1;
  const bool rounded = size_of(p.dtype) == 2 || p.precision == core::Precision::tf32;
  if (device.sm != 90 || !rounded || p.cin_per_group() < 24) return false;
  if (p.cout >= 8 || p.groups > 1) return false;
  const core::Work work = core::work_of(p);
  const double memory = work.bytes / std::max(1.0, device.copy_gbps) * 1e-6;
  return work.flops >= 2.5e8 && few_couts_simt_ms(p) > 2 * memory;
}

}  // namespace tconv::cuda
