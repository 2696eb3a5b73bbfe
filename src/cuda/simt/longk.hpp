// Host side of longk.cuh.
#pragma once

#include <cstdint>

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSimtLongk;

namespace simt {

struct SumParams {
  const void* partial;
  const void* bias;  // or null
  void* y;
  int64_t elements;  // n*cout*lout
  int64_t lout, cout;
  int32_t splits;
};

using SumFunction = void (*)(SumParams);
SumFunction sum_partials_function(core::DType dtype);

}  // namespace simt
}  // namespace tconv::cuda
