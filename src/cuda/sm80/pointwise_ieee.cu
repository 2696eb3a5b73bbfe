#include "cuda/sm80/pointwise.cuh"

namespace tconv::cuda {

PointwiseFunctions pointwise_ieee() {
  return sm80::pointwise::functions_of<Ieee>();
}

}  // namespace tconv::cuda
