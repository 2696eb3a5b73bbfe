#include "cuda/sm80/weight.cuh"

namespace tconv::cuda {

WeightFunctions weight_bf16() {
  return sm80::weight::functions_of<sm80::weight::Half<__nv_bfloat16>>();
}

}  // namespace tconv::cuda
