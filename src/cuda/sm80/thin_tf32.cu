#include "cuda/sm80/thin.cuh"

namespace tconv::cuda {

ThinFunctions thin_tf32() {
  return sm80::thin::functions_of<Tf32>();
}

}  // namespace tconv::cuda
