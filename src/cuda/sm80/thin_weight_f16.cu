#include "cuda/sm80/thin_weight.cuh"

namespace tconv::cuda {

ThinWeightFunctions thin_weight_f16() {
  return sm80::thin_weight::functions_of<sm80::weight::Half<__half>>();
}

}  // namespace tconv::cuda
