#include "cuda/sm80/tiles.cuh"

namespace tconv::cuda {

Sm80Functions sm80_tf32() {
  return sm80::functions_of<Tf32>();
}

}  // namespace tconv::cuda
