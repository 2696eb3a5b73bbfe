#include "cuda/host/by_dtype.cuh"
#include "cuda/simt/strided_direct.cuh"

namespace tconv::cuda::simt {

StridedFunction strided_direct_function(core::DType dtype, int rows) {
  return by_dtype(dtype, [&](auto type) -> StridedFunction {
    using T = decltype(type);
    return rows == 1 ? strided_direct_kernel<T, 1> : strided_direct_kernel<T, 2>;
  });
}

}  // namespace tconv::cuda::simt
