#include "cuda/sm80/weight.cuh"

namespace tconv::cuda {

WeightFunctions weight_f16() {
  return sm80::weight::functions_of<sm80::weight::Half<__half>>();
}

}  // namespace tconv::cuda
