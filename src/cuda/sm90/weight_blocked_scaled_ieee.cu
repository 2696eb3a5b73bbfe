#include "cuda/sm90/weight_blocked.cuh"

namespace tconv::cuda {

Sm90WeightBlockedFunctions sm90_weight_blocked_scaled_ieee() {
  return sm90::weight_blocked::functions_of<sm90::weight_blocked::ScaledIeeeMode>();
}

}  // namespace tconv::cuda
