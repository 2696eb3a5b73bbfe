#include "cuda/simt/weight.cuh"

namespace tconv::cuda::simt {

WeightFunctions weight_bf16() {
  return weight_functions<__nv_bfloat16>();
}

}  // namespace tconv::cuda::simt
