#include "cuda/sm80/tiles.cuh"

namespace tconv::cuda {

Sm80Functions sm80_ieee() {
  return sm80::functions_of<Ieee>();
}

}  // namespace tconv::cuda
