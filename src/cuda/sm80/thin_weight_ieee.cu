#include "cuda/sm80/thin_weight.cuh"

namespace tconv::cuda {

ThinWeightFunctions thin_weight_ieee() {
  return sm80::thin_weight::functions_of<sm80::weight::Ieee>();
}

}  // namespace tconv::cuda
