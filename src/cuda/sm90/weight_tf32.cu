#include "cuda/sm90/weight.cuh"

namespace tconv::cuda {

Sm90WeightFunctions sm90_weight_tf32() {
  return sm90::weight::functions_of<sm80::weight::Tf32>();
}

}  // namespace tconv::cuda
