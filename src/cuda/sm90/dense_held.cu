#include "cuda/sm90/dense.cuh"

namespace tconv::cuda {

Sm90Functions sm90_held() {
  return sm90::functions_of<sm90::Held>();
}

}  // namespace tconv::cuda
