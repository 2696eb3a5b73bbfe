// The small kernels around dense_kernel: packing, the fill of skewed outputs.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/dense.hpp"

namespace tconv::cuda {

__device__ inline int64_t grid_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t grid_step() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

// A thread packs one (channel, column) for every tap: the taps of a weight lie side by side, so a block reads
// each line once, and neighbouring threads write neighbouring columns.
template <class T>
__global__ void dense_pack_kernel(const __grid_constant__ DensePackParams p) {
  wait_for_launch_before();
  const DenseClass& c = p.kind;
  const uint32_t row_blocks = (c.pitch + blockDim.x - 1) / blockDim.x;
  const int64_t rows = p.cin * row_blocks;
  for (int64_t b = blockIdx.x; b < rows; b += gridDim.x) {
    const int64_t ci = divide(b, row_blocks);
    const uint32_t column = static_cast<uint32_t>(b - ci * row_blocks) * blockDim.x + threadIdx.x;
    if (column >= static_cast<uint32_t>(c.pitch)) continue;
    const int64_t group = divide(ci, p.cin_group), channel = ci - group * p.cin_group;
    const uint32_t co = column / c.phases, phase = c.first_phase + column - co * c.phases;
    const bool there = column < static_cast<uint32_t>(c.columns);
    const T* from = static_cast<const T*>(p.weight) + (ci * p.cout_group + co) * p.k + phase;
    T* to =
        static_cast<T*>(p.packed) + c.packed + (group * c.taps * p.cin_group + channel) * c.pitch + column;
    for (int tap = 0; tap < c.taps; ++tap) {
      *to = there ? __ldg(from) : T(0.0f);
      from += p.tap_stride;
      to += p.cin_group * c.pitch;
    }
  }
}

template <class T>
__global__ void dense_fill_kernel(const __grid_constant__ DenseFillParams p) {
  wait_for_launch_before();
  for (int64_t i = grid_index(); i < p.elements; i += grid_step()) {
    static_cast<T*>(p.output)[i] = epilogue_of<T>(p.bias, divide(i, p.lout) % p.cout).alone();
  }
}

}  // namespace tconv::cuda
