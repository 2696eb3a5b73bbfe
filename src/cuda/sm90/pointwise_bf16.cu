#include "cuda/sm90/pointwise.cuh"

namespace tconv::cuda {

Sm90PointwiseFunctions sm90_pointwise_bf16() {
  return sm90::pointwise::functions_of<Bf16>();
}

}  // namespace tconv::cuda
