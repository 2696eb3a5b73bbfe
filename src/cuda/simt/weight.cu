#include "cuda/simt/weight.cuh"

namespace tconv::cuda::simt {

WeightFunctions weight_f32() {
  return weight_functions<float>();
}
WeightFunctions weight_f64() {
  return weight_functions<double>();
}
WeightFunctions weight_f16() {
  return weight_functions<__half>();
}
WeightFunctions weight_bf16() {
  return weight_functions<__nv_bfloat16>();
}

}  // namespace tconv::cuda::simt
