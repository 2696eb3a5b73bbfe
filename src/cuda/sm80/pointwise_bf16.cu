#include "cuda/sm80/pointwise.cuh"

namespace tconv::cuda {

PointwiseFunctions pointwise_bf16() {
  return sm80::pointwise::functions_of<Bf16>();
}

}  // namespace tconv::cuda
