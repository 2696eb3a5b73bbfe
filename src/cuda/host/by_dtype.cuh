// Which of a kernel's instantiations serves a dtype, if one source file has them all.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/host/by_dtype.hpp"

namespace tconv::cuda {

// of(T{}), T the dtype's storage type: all four results have one type.
template <class Of>
auto by_dtype(core::DType dtype, Of&& of) {
  using V = decltype(of(float{}));
  return by_dtype<V>(dtype, of(float{}), of(double{}), of(__half{}), of(__nv_bfloat16{}));
}

}  // namespace tconv::cuda
