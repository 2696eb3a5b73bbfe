#include "cuda/host/by_dtype.hpp"
#include "cuda/simt/depthwise_flat.cuh"

namespace tconv::cuda::simt {

namespace {

template <class T>
DepthwiseFlatFunction by_length(int64_t lout) {
  return lout < 16 / static_cast<int>(sizeof(T)) ? depthwise_flat_kernel<T, true>
                                                 : depthwise_flat_kernel<T, false>;
}

}  // namespace

DepthwiseFlatFunction depthwise_flat_function(core::DType dtype, int64_t lout) {
  return by_dtype<DepthwiseFlatFunction>(dtype, by_length<float>(lout), nullptr, by_length<__half>(lout),
                                         by_length<__nv_bfloat16>(lout));
}

}  // namespace tconv::cuda::simt
