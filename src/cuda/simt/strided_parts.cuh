// What the ways of cuda.simt.strided with windows of dy in shared memory have in common.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/storage.cuh"
#include "cuda/simt/strided.hpp"

namespace tconv::cuda::simt {

// The part of a window that lies in dy: elements [begin, begin + count).
struct StridedWindow {
  int64_t first;  // place in dy of the window's first element
  int begin, count;

  __device__ StridedWindow(const StridedParams& p, int64_t first) : first(first) {
    const int64_t before = min(max(-first, int64_t{0}), int64_t{p.window});
    begin = static_cast<int>(before);
    count = static_cast<int>(max(min(int64_t{p.window}, p.lout - first) - before, int64_t{0}));
  }
  __device__ bool has(int e) const { return static_cast<unsigned>(e - begin) < static_cast<unsigned>(count); }
};

// What the R rows of a tile multiply an element of dy by.
template <class Sum, int R>
struct alignas(R * sizeof(Sum) < 16 ? R * sizeof(Sum) : 16) StridedWeights {
  Sum row[R];
};

}  // namespace tconv::cuda::simt
