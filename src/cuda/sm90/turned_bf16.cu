#include "cuda/sm90/turned_stages.cuh"

namespace tconv::cuda {

Sm90TurnedFunctions sm90_turned_bf16() {
  return sm90::turned_functions_of<Bf16>();
}

}  // namespace tconv::cuda
