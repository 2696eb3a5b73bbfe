#include "cuda/simt/strided_residues.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T>
StridedResidueFunction by_pairs(int pairs) {
  switch (pairs) {
    case 1:
      return strided_residue_kernel<T, 1, residue_outputs(1)>;
    case 2:
      return strided_residue_kernel<T, 2, residue_outputs(2)>;
    case 3:
      return strided_residue_kernel<T, 3, residue_outputs(3)>;
    case 4:
      return strided_residue_kernel<T, 4, residue_outputs(4)>;
    case 6:
      return strided_residue_kernel<T, 6, residue_outputs(6)>;
    case 8:
      return strided_residue_kernel<T, 8, residue_outputs(8)>;
    case 12:
      return strided_residue_kernel<T, 12, residue_outputs(12)>;
    default:
      return strided_residue_kernel<T, 16, residue_outputs(16)>;
  }
}

}  // namespace

StridedResidueFunction strided_residue_function(core::DType dtype, int pairs) {
  switch (dtype) {
    case core::DType::f32:
      return by_pairs<float>(pairs);
    case core::DType::f16:
      return by_pairs<__half>(pairs);
    case core::DType::bf16:
      return by_pairs<__nv_bfloat16>(pairs);
    case core::DType::f64:
      break;
  }
  return nullptr;
}

}  // namespace tconv::cuda::simt
