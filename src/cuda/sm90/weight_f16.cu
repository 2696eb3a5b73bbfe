#include "cuda/sm90/weight.cuh"

namespace tconv::cuda {

Sm90WeightFunctions sm90_weight_f16() {
  return sm90::weight::functions_of<sm80::weight::Half<__half>>();
}

}  // namespace tconv::cuda
