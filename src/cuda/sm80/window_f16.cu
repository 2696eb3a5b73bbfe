#include "cuda/sm80/window.cuh"

namespace tconv::cuda {

WindowFunctions window_f16() {
  return sm80::window::functions_of<F16>();
}

}  // namespace tconv::cuda
