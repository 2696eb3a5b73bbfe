#include "cuda/sm80/window.cuh"

namespace tconv::cuda {

WindowFunctions window_bf16() {
  return sm80::window::functions_of<Bf16>();
}

}  // namespace tconv::cuda
