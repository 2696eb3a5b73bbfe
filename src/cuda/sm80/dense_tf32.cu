#include "cuda/sm80/tiles.cuh"

namespace tconv::cuda {

Sm80Functions sm80_tf32() {
  return sm80::functions_of<sm80::Tf32>();
}

}  // namespace tconv::cuda
