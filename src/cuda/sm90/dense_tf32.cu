#include "cuda/sm90/transposed.cuh"

namespace tconv::cuda {

Sm90Functions sm90_tf32() {
  return sm90::functions_of<Tf32>();
}

}  // namespace tconv::cuda
