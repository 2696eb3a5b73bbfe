#include "cuda/sm90/weight_turned.cuh"

namespace tconv::cuda {

Sm90WeightTurnedFunctions sm90_weight_turned_ieee() {
  return sm90::weight_turned::functions_of<sm90::weight_blocked::IeeeMode>();
}

}  // namespace tconv::cuda
