#include "cuda/simt/gather.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T>
GatherFunction by_shape(int co, int p) {
  if (co == 4) return gather_kernel<T, 4, 2>;
  return p == 4 ? gather_kernel<T, 1, 4> : gather_kernel<T, 1, 1>;
}

}  // namespace

GatherFunction gather_function(core::DType dtype, int co, int p) {
  switch (dtype) {
    case core::DType::f64:
      return by_shape<double>(co, p);
    case core::DType::f16:
      return by_shape<__half>(co, p);
    case core::DType::bf16:
      return by_shape<__nv_bfloat16>(co, p);
    case core::DType::f32:
      break;
  }
  return by_shape<float>(co, p);
}

}  // namespace tconv::cuda::simt
