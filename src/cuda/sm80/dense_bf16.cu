#include "cuda/sm80/tiles.cuh"

namespace tconv::cuda {

Sm80Functions sm80_bf16() {
  return sm80::functions_of<sm80::Bf16>();
}

}  // namespace tconv::cuda
