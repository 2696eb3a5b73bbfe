#include "cuda/sm80/window.cuh"

namespace tconv::cuda {

WindowFunctions window_tf32() {
  return sm80::window::functions_of<Tf32>();
}

}  // namespace tconv::cuda
