#include "cuda/sm80/window.cuh"

namespace tconv::cuda {

WindowFunctions window_ieee() {
  return sm80::window::functions_of<Ieee>();
}

}  // namespace tconv::cuda
