#include "cuda/sm90/weight_turned.cuh"

namespace tconv::cuda {

Sm90WeightTurnedFunctions sm90_weight_turned_bf16() {
  return sm90::weight_turned::functions_of<sm90::weight_blocked::HalfMode<__nv_bfloat16>>();
}

}  // namespace tconv::cuda
