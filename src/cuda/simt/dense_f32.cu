#include "cuda/simt/dense_types.cuh"

namespace tconv::cuda {

DenseFunctions dense_f32() {
  return dense_functions<float>();
}

}  // namespace tconv::cuda
