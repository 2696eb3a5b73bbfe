#include "cuda/sm90/transposed.cuh"

namespace tconv::cuda {

Sm90Functions sm90_scaled() {
  return sm90::functions_of<sm90::Fp16Scaled>();
}

}  // namespace tconv::cuda
