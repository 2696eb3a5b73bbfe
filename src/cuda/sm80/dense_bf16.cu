#include "cuda/sm80/tiles.cuh"

namespace tconv::cuda {

Sm80Functions sm80_bf16() {
  return sm80::functions_of<Bf16>();
}

}  // namespace tconv::cuda
