#include "cuda/sm80/weight.cuh"

namespace tconv::cuda {

WeightFunctions weight_f64() {
  return sm80::weight::functions_of<sm80::weight::F64>();
}

}  // namespace tconv::cuda
