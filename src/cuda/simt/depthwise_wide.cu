#include "cuda/host/by_dtype.hpp"
#include "cuda/simt/depthwise_wide.cuh"

namespace tconv::cuda::simt {

namespace {

template <class T>
DepthwiseWideFunction by_outputs(int64_t outputs) {
  return outputs == kDepthwiseWideLong ? depthwise_wide_kernel<T, kDepthwiseWideLong>
                                       : depthwise_wide_kernel<T, kDepthwiseWideShort>;
}

}  // namespace

DepthwiseWideFunction depthwise_wide_function(core::DType dtype, int64_t outputs) {
  return by_dtype<DepthwiseWideFunction>(dtype, by_outputs<float>(outputs), nullptr,
                                         by_outputs<__half>(outputs), by_outputs<__nv_bfloat16>(outputs));
}

}  // namespace tconv::cuda::simt
