#include "cuda/sm90/blocked_stages.cuh"

namespace tconv::cuda {

Sm90BlockedFunctions sm90_blocked_bf16() {
  return sm90::blocked_functions_of<Bf16>();
}

}  // namespace tconv::cuda
