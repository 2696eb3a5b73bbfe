#include "cuda/sm80/thin.cuh"

namespace tconv::cuda {

ThinFunctions thin_f16() {
  return sm80::thin::functions_of<F16>();
}

}  // namespace tconv::cuda
