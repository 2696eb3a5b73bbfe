#include "cuda/sm80/overlap.cuh"

namespace tconv::cuda {

OverlapFunctions overlap_f16() {
  return sm80::overlap::functions_of<F16>();
}

}  // namespace tconv::cuda
