#include "cuda/simt/weight_staged.cuh"

namespace tconv::cuda::simt {

StagedFunctions staged_functions_f16() {
  return staged_functions_of<__half>();
}

}  // namespace tconv::cuda::simt
