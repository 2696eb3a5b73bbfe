#include "cuda/sm90/blocked_stages.cuh"

namespace tconv::cuda {

Sm90ScaledFunctions sm90_blocked_scaled() {
  return sm90::scaled_functions_of<sm90::Fp16Scaled>();
}

}  // namespace tconv::cuda
