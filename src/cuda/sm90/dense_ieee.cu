#include "cuda/sm90/transposed.cuh"

namespace tconv::cuda {

Sm90Functions sm90_ieee() {
  return sm90::functions_of<Ieee>();
}

}  // namespace tconv::cuda
