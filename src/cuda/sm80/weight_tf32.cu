#include "cuda/sm80/weight.cuh"

namespace tconv::cuda {

WeightFunctions weight_tf32() {
  return sm80::weight::functions_of<sm80::weight::Tf32>();
}

}  // namespace tconv::cuda
