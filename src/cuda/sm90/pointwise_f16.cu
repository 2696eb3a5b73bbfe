#include "cuda/sm90/pointwise.cuh"

namespace tconv::cuda {

Sm90PointwiseFunctions sm90_pointwise_f16() {
  return sm90::pointwise::functions_of<F16>();
}

}  // namespace tconv::cuda
