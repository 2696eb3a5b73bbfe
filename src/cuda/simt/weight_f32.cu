#include "cuda/simt/weight.cuh"

namespace tconv::cuda::simt {

WeightFunctions weight_f32() {
  return weight_functions<float>();
}

}  // namespace tconv::cuda::simt
