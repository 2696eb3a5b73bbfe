// Where a kernel of the transposed product finds a weight, in elements of the raw weight.
#pragma once

#include <cstdint>

namespace tconv::cuda {

// Of a group, one of its input channels, one of its output channels and a tap; `first` is that of zeros.
struct WeightSteps {
  int64_t first, group, cin, cout, tap;

#ifdef __CUDACC__
  __device__ int64_t place(int64_t g, int64_t ci, int64_t co, int64_t k) const {
    return first + g * group + ci * cin + co * cout + k * tap;
  }
#endif
};

}  // namespace tconv::cuda
