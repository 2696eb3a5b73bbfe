#include "cuda/sm90/weight_blocked.cuh"

namespace tconv::cuda {

Sm90WeightBlockedFunctions sm90_weight_blocked_bf16() {
  return sm90::weight_blocked::functions_of<sm90::weight_blocked::HalfMode<__nv_bfloat16>>();
}

}  // namespace tconv::cuda
