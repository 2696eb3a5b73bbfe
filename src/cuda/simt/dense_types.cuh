// The tiles of each storage type, in the order of dense_plan.cpp.
#pragma once

#include "cuda/simt/dense.cuh"
#include "cuda/simt/dense_helpers.cuh"

namespace tconv::cuda {

template <class T>
DenseFunctions dense_functions() {
  if constexpr (std::is_same_v<T, double>) {
    return {{dense_kernel<DenseShape<T, 64, 64, 8, 4, 3>>, dense_kernel<DenseShape<T, 64, 32, 4, 4, 2>>,
             dense_kernel<DenseShape<T, 32, 64, 4, 4, 2>>, nullptr},
            dense_pack_kernel<T>,
            dense_sum_kernel<T>,
            dense_fill_kernel<T>};
  } else {
    return {{dense_kernel<DenseShape<T, 128, 128, 8, 8, 2>>, dense_kernel<DenseShape<T, 128, 64, 8, 8, 3>>,
             dense_kernel<DenseShape<T, 128, 32, 8, 4, 4>>, dense_kernel<DenseShape<T, 32, 128, 4, 8, 4>>},
            dense_pack_kernel<T>,
            dense_sum_kernel<T>,
            dense_fill_kernel<T>};
  }
}

}  // namespace tconv::cuda
