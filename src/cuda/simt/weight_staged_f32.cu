#include "cuda/simt/weight_staged.cuh"

namespace tconv::cuda::simt {

StagedFunctions staged_functions_f32() {
  return staged_functions_of<float>();
}

}  // namespace tconv::cuda::simt
