#include "cuda/simt/dense_types.cuh"

namespace tconv::cuda {

DenseFunctions dense_f64() {
  return dense_functions<double>();
}

}  // namespace tconv::cuda
