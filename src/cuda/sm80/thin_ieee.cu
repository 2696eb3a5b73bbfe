#include "cuda/sm80/thin.cuh"

namespace tconv::cuda {

ThinFunctions thin_ieee() {
  return sm80::thin::functions_of<Ieee>();
}

}  // namespace tconv::cuda
