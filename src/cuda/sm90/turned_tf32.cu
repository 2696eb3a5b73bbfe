#include "cuda/sm90/turned_stages.cuh"

namespace tconv::cuda {

Sm90TurnedFunctions sm90_turned_tf32() {
  return sm90::turned_functions_of<Tf32>();
}

}  // namespace tconv::cuda
