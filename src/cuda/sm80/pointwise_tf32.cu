#include "cuda/sm80/pointwise.cuh"

namespace tconv::cuda {

PointwiseFunctions pointwise_tf32() {
  return sm80::pointwise::functions_of<Tf32>();
}

}  // namespace tconv::cuda
