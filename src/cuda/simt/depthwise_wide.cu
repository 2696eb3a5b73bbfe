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
  switch (dtype) {
    case core::DType::f32:
      return by_outputs<float>(outputs);
    case core::DType::f16:
      return by_outputs<__half>(outputs);
    case core::DType::bf16:
      return by_outputs<__nv_bfloat16>(outputs);
    case core::DType::f64:
      break;
  }
  return nullptr;
}

}  // namespace tconv::cuda::simt
