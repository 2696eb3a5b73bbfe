#include "cuda/simt/weight_staged.cuh"

namespace tconv::cuda::simt {

StagedFunctions staged_functions() {
  return {{staged_kernel<8, 8>, staged_kernel<8, 4>, staged_kernel<8, 2>, staged_kernel<4, 8>,
           staged_kernel<2, 8>, staged_kernel<1, 8>}};
}

}  // namespace tconv::cuda::simt
