#include "cuda/simt/weight.cuh"

namespace tconv::cuda::simt {

WeightFunctions weight_f16() {
  return weight_functions<__half>();
}

}  // namespace tconv::cuda::simt
