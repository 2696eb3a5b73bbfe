#include "cuda/simt/weight_staged.cuh"

namespace tconv::cuda::simt {

StagedFunctions staged_functions_bf16() {
  return staged_functions_of<__nv_bfloat16>();
}

}  // namespace tconv::cuda::simt
