#include "cuda/simt/strided.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T>
StridedFunction by_rows(int rows) {
  if (rows == 1) return strided_kernel<T, 1>;
  return rows == 2 ? strided_kernel<T, 2> : rows == 4 ? strided_kernel<T, 4> : strided_kernel<T, 8>;
}

}  // namespace

StridedFunction strided_function(core::DType dtype, int rows) {
  switch (dtype) {
    case core::DType::f64:
      return by_rows<double>(rows);
    case core::DType::f16:
      return by_rows<__half>(rows);
    case core::DType::bf16:
      return by_rows<__nv_bfloat16>(rows);
    case core::DType::f32:
      break;
  }
  return by_rows<float>(rows);
}

}  // namespace tconv::cuda::simt
