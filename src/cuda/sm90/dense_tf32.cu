#include "cuda/sm90/transposed.cuh"

namespace tconv::cuda {

Sm90Functions sm90_tf32() {
  return sm90::functions_of<sm90::Tf32>();
}

}  // namespace tconv::cuda
