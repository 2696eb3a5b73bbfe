#include "cuda/sm80/overlap.cuh"

namespace tconv::cuda {

OverlapFunctions overlap_tf32() {
  return sm80::overlap::functions_of<Tf32>();
}

}  // namespace tconv::cuda
