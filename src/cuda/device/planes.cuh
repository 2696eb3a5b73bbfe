// A tensor's phases modulo a stride, as rows of their own, so that positions a stride apart become
// neighbours. Memory binds: every element that a phase has is read once (neighbouring phases share it in the
// L1 cache) and written once.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/device/planes.hpp"

namespace tconv::cuda {

// A thread takes `Phases` phases of 8/Phases positions of a row; all its loads are under way together. It
// divides only to find its row.
template <class Word, int Phases>
__device__ inline void make_planes_of(const PlanesParams& p) {
  constexpr int kPositions = 8 / Phases;
  const int64_t place = divide(blockIdx.x, p.chunks), row_block = divide(place, p.tiles);
  const int first = static_cast<int>(blockIdx.x - place * p.chunks) * Phases;
  const int lane = static_cast<int>(threadIdx.x) & (p.lanes - 1),
            inner = static_cast<int>(threadIdx.x) / p.lanes;
  const int64_t row = row_block * (kPlanesThreads / p.lanes) + inner;
  const int v = static_cast<int>(place - row_block * p.tiles) * kPositions * p.lanes + lane;
  if (row >= p.rows) return;
  const int64_t n = divide(row, p.channels), channel = row - n * p.channels;
  const Word* from = static_cast<const Word*>(p.from) + n * p.from_step[0] + channel * p.from_step[1];
  const int64_t o = v * p.stride + first * p.dilation - p.padding, next = p.lanes * p.stride;
  Word values[kPositions][Phases];
#pragma unroll
  for (int i = 0; i < kPositions; ++i) {
#pragma unroll
    for (int a = 0; a < Phases; ++a) {
      const int64_t at = o + i * next + a * p.dilation;
      const bool there = v + i * p.lanes < p.pitch && first + a < p.phases &&
                         static_cast<uint64_t>(at) < static_cast<uint64_t>(p.length);
      values[i][a] = there ? __ldg(from + at * p.from_step[2]) : Word(0);
    }
  }
  Word* to = static_cast<Word*>(p.to) + (row * p.phases + first) * p.pitch + v;
#pragma unroll
  for (int i = 0; i < kPositions; ++i) {
    if (v + i * p.lanes >= p.pitch) break;
#pragma unroll
    for (int a = 0; a < Phases; ++a) {
      if (first + a < p.phases) to[i * p.lanes + a * p.pitch] = values[i][a];
    }
  }
}

template <class Word, int Phases>
__global__ void __launch_bounds__(kPlanesThreads) planes_kernel(const __grid_constant__ PlanesParams p) {
  wait_for_launch_before(p.order);
  make_planes_of<Word, Phases>(p);
  wait_for_launch_beside(p.order);
}

}  // namespace tconv::cuda
