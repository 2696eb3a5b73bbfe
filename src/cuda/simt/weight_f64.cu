#include "cuda/simt/weight.cuh"

namespace tconv::cuda::simt {

WeightFunctions weight_f64() {
  return weight_functions<double>();
}

}  // namespace tconv::cuda::simt
