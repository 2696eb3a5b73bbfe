#include "cuda/sm80/overlap.cuh"

namespace tconv::cuda {

OverlapFunctions overlap_ieee() {
  return sm80::overlap::functions_of<Ieee>();
}

}  // namespace tconv::cuda
