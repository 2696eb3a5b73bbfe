#include "cuda/sm80/tiles.cuh"

namespace tconv::cuda {

Sm80Functions sm80_f16() {
  return sm80::functions_of<sm80::F16>();
}

}  // namespace tconv::cuda
