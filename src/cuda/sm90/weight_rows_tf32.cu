#include "cuda/sm90/weight_rows.cuh"

namespace tconv::cuda {

Sm90WeightRowsFunctions sm90_weight_rows_tf32() {
  return sm90::weight_rows::functions_of<sm90::weight_blocked::Tf32Mode>();
}

}  // namespace tconv::cuda
