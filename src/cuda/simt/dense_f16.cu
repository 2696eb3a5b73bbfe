#include "cuda/simt/dense_types.cuh"

namespace tconv::cuda {

DenseFunctions dense_f16() {
  return dense_functions<__half>();
}

}  // namespace tconv::cuda
