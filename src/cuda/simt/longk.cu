#include "cuda/simt/longk.cuh"

namespace tconv::cuda::simt {

SumFunction sum_partials_function(int element_bytes) {
  if (element_bytes == 2) return sum_partials_kernel<uint16_t>;
  return element_bytes == 4 ? sum_partials_kernel<float> : sum_partials_kernel<double>;
}

}  // namespace tconv::cuda::simt
