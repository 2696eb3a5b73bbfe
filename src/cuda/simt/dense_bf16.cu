#include "cuda/simt/dense_types.cuh"

namespace tconv::cuda {

DenseFunctions dense_bf16() {
  return dense_functions<__nv_bfloat16>();
}

}  // namespace tconv::cuda
