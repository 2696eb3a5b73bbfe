#include "cuda/simt/plain.cuh"

namespace tconv::cuda {

PlainFunctions plain_f32() {
  return plain_functions<float>();
}
PlainFunctions plain_f64() {
  return plain_functions<double>();
}
PlainFunctions plain_f16() {
  return plain_functions<__half>();
}
PlainFunctions plain_bf16() {
  return plain_functions<__nv_bfloat16>();
}

}  // namespace tconv::cuda
