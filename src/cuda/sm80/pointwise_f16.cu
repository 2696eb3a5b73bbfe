#include "cuda/sm80/pointwise.cuh"

namespace tconv::cuda {

PointwiseFunctions pointwise_f16() {
  return sm80::pointwise::functions_of<F16>();
}

}  // namespace tconv::cuda
