#include "cuda/sm90/pointwise.cuh"

namespace tconv::cuda {

Sm90PointwiseFunctions sm90_pointwise_tf32() {
  return sm90::pointwise::functions_of<Tf32>();
}

}  // namespace tconv::cuda
