#include "cuda/sm90/transposed.cuh"

namespace tconv::cuda {

Sm90Functions sm90_bf16() {
  return sm90::functions_of<Bf16>();
}

}  // namespace tconv::cuda
