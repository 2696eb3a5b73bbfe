#include "cuda/sm90/weight_blocked.cuh"

namespace tconv::cuda {

Sm90WeightBlockedFunctions sm90_weight_blocked_ieee() {
  return sm90::weight_blocked::functions_of<sm90::weight_blocked::IeeeMode>();
}

}  // namespace tconv::cuda
