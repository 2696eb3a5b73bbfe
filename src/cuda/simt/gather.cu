#include "cuda/host/by_dtype.cuh"
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
  return by_dtype(dtype, [&](auto type) { return by_shape<decltype(type)>(co, p); });
}

}  // namespace tconv::cuda::simt
