#include "cuda/simt/outer.cuh"

namespace tconv::cuda::simt {

OuterFunctions outer_f32() {
  return outer_functions<float>();
}
OuterFunctions outer_f64() {
  return outer_functions<double>();
}
OuterFunctions outer_f16() {
  return outer_functions<__half>();
}
OuterFunctions outer_bf16() {
  return outer_functions<__nv_bfloat16>();
}

}  // namespace tconv::cuda::simt
