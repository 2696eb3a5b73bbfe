#include "cuda/sm90/turned_stages.cuh"

namespace tconv::cuda {

Sm90TurnedFunctions sm90_turned_f16() {
  return sm90::turned_functions_of<F16>();
}

}  // namespace tconv::cuda
