#include "cuda/sm80/tiles.cuh"

namespace tconv::cuda {

Sm80Functions sm80_f16() {
  return sm80::functions_of<F16>();
}

}  // namespace tconv::cuda
