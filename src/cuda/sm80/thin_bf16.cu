#include "cuda/sm80/thin.cuh"

namespace tconv::cuda {

ThinFunctions thin_bf16() {
  return sm80::thin::functions_of<Bf16>();
}

}  // namespace tconv::cuda
