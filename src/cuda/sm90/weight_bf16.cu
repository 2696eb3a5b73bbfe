#include "cuda/sm90/weight.cuh"

namespace tconv::cuda {

Sm90WeightFunctions sm90_weight_bf16() {
  return sm90::weight::functions_of<sm80::weight::Half<__nv_bfloat16>>();
}

}  // namespace tconv::cuda
