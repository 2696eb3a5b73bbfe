#include "cuda/sm90/blocked_stages.cuh"

namespace tconv::cuda {

Sm90BlockedFunctions sm90_blocked_tf32() {
  return sm90::blocked_functions_of<Tf32>();
}

}  // namespace tconv::cuda
