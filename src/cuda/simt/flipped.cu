#include "cuda/simt/strided_direct.cuh"

namespace tconv::cuda::simt {

StridedFunction flipped_function(core::DType dtype, int rows, int positions) {
  return direct_function<-1>(dtype, rows, positions);
}

}  // namespace tconv::cuda::simt
