#include "cuda/sm80/weight.cuh"

namespace tconv::cuda {

WeightFunctions weight_ieee() {
  return sm80::weight::functions_of<sm80::weight::Ieee>();
}

}  // namespace tconv::cuda
