#include "cuda/sm90/weight_blocked.cuh"

namespace tconv::cuda {

Sm90WeightBlockedFunctions sm90_weight_blocked_scaled_tf32() {
  return sm90::weight_blocked::functions_of<sm90::weight_blocked::ScaledTf32Mode>();
}

}  // namespace tconv::cuda
