// A tensor's phases modulo a stride as rows of their own, so that positions a stride apart lie side by side.
// Bound by memory: every element that a phase has is read once (neighbouring phases meet in the L1 cache) and
// written once.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/planes.hpp"

namespace tconv::cuda {

// A thread takes `Phases` phases of 8/Phases positions of a row, all loads under way together.
template <class Word, int Phases>
__global__ void __launch_bounds__(kPlanesThreads) planes_kernel(const __grid_constant__ PlanesParams p) {
  constexpr int kPositions = 8 / Phases;
  const int64_t chunks = (p.phases + Phases - 1) / Phases;
  const int64_t place = divide(blockIdx.x, chunks);
  const int first = static_cast<int>(blockIdx.x - place * chunks) * Phases;
  const int64_t begin = place * kPlanesThreads * kPositions + threadIdx.x;
  Word values[kPositions][Phases];
  int64_t to[kPositions];
#pragma unroll
  for (int i = 0; i < kPositions; ++i) {
    const int64_t index = begin + i * kPlanesThreads;
    const int64_t row = divide(index, p.pitch), v = index - row * p.pitch;
    const int64_t n = divide(row, p.channels), channel = row - n * p.channels;
    to[i] = index < p.rows * p.pitch ? (row * p.phases + first) * p.pitch + v : -1;
    const int64_t o = v * p.stride + first * p.dilation - p.padding;
    const Word* from = static_cast<const Word*>(p.from) + n * p.from_step[0] + channel * p.from_step[1];
#pragma unroll
    for (int a = 0; a < Phases; ++a) {
      const int64_t at = o + a * p.dilation;
      const bool there = to[i] >= 0 && first + a < p.phases && at >= 0 && at < p.length;
      values[i][a] = there ? __ldg(from + at * p.from_step[2]) : Word(0);
    }
  }
#pragma unroll
  for (int i = 0; i < kPositions; ++i) {
    if (to[i] < 0) continue;
    Word* row = static_cast<Word*>(p.to) + to[i];
#pragma unroll
    for (int a = 0; a < Phases; ++a) {
      if (first + a < p.phases) row[a * p.pitch] = values[i][a];
    }
  }
}

}  // namespace tconv::cuda
