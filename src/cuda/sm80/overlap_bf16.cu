#include "cuda/sm80/overlap.cuh"

namespace tconv::cuda {

OverlapFunctions overlap_bf16() {
  return sm80::overlap::functions_of<Bf16>();
}

}  // namespace tconv::cuda
