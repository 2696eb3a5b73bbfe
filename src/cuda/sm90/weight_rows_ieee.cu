#include "cuda/sm90/weight_rows.cuh"

namespace tconv::cuda {

Sm90WeightRowsFunctions sm90_weight_rows_ieee() {
  return sm90::weight_rows::functions_of<sm90::weight_blocked::IeeeMode>();
}

}  // namespace tconv::cuda
