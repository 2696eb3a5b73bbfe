#include "cuda/sm80/tiles.cuh"

namespace tconv::cuda {

Sm80Functions sm80_f64() {
  return sm80::functions_of<F64>();
}

}  // namespace tconv::cuda
