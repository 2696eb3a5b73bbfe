// What the tensor-core families need to know of a problem: its arithmetic, whether its counts fit their
// kernels, and the name of its packed weights.
#pragma once

#include <string>

#include "cuda/device/arithmetic.hpp"
#include "cuda/device/phases.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

inline constexpr int kTensorMaxStride = 1024;  // the tables of a stride's outputs are in shared memory

Arithmetic arithmetic_of(const core::Problem& problem);
const char* name_of(Arithmetic arithmetic);

// Which of a family's instantiations serves an arithmetic. f64 is null if the family refuses it.
template <class V>
V by_arithmetic(Arithmetic arithmetic, V tf32, V ieee, V f16, V bf16, V f64 = {}) {
  const V all[] = {tf32, ieee, f16, bf16, f64};
  return all[static_cast<int>(arithmetic)];
}
// Of a family that refuses ieee too.
template <class V>
V by_arithmetic(Arithmetic arithmetic, V tf32, V f16, V bf16) {
  return by_arithmetic(arithmetic, tf32, V{}, f16, bf16);
}

// Why mma.sync cannot run on a device, or "".
inline std::string no_mma(const core::DeviceInfo& device) {
  return device.sm < 80 ? "compute capability below 8.0: no tf32 or bfloat16 tensor cores" : "";
}

// Why the sums of an ieee problem are too short for split operands, whose products are a few units of 2^-24
// off, or "". What counts is the problem's longest sum, or `at_most` terms of it.
std::string too_few_terms(const core::Problem& problem, int64_t at_most = INT64_MAX);

// Whether x, the arithmetic and every count that the kernels keep in 32 bits are suitable.
plan::Support tensor_supports(const core::Problem& problem);

std::string tensor_pack_key(const char* kernel, const core::Problem& problem, const Phases& phases);

// ", rows (64 cout, 2 phases), depth 128 channels x 2 taps"
std::string rows_and_depth(const core::Problem& problem, const Phases& phases);

}  // namespace tconv::cuda
