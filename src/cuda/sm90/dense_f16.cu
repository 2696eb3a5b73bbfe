#include "cuda/sm90/transposed.cuh"

namespace tconv::cuda {

Sm90Functions sm90_f16() {
  return sm90::functions_of<F16>();
}

}  // namespace tconv::cuda
