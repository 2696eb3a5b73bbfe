#include "cuda/sm80/thin_weight.cuh"

namespace tconv::cuda {

ThinWeightFunctions thin_weight_tf32() {
  return sm80::thin_weight::functions_of<sm80::weight::Tf32>();
}

}  // namespace tconv::cuda
