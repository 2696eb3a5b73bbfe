// Adds partial sums of a few phases (ordered_sum.hpp) by tiles of a row (n, cout) of y: all phases by as many
// positions as make 2,048 outputs.
//
//   for each row of y, tile of positions:                                                    a block
//     for each phase, four positions:                                                        a thread
//       sums[phase][u..] = partial[0][phase][u..] + partial[1][phase][u..] + ...             in this order
//     y[stride*u + phase - padding] = epilogue(sums[phase][u])                               by neighbours
//
// Every output has a phase, as in phase_tiles.cuh, which takes many phases. A row of partial sums begins on
// four positions, so that each load is a vector.
#pragma once

#include "cuda/device/ordered_sum.cuh"

namespace tconv::cuda {

template <class T>
__global__ void __launch_bounds__(kSumThreads)
    phase_fours_kernel(const __grid_constant__ PhaseFoursParams p) {
  wait_for_launch_before();
  using Finish = epilogue::Epilogue<DeviceRounding<T, float>>;
  constexpr int kAhead = 4, kEach = kSumTile / kSumFour / kSumThreads;  // fours of a thread
  __shared__ float tile[kSumTile + kSumTile / 32];
  const auto at_bank = [](int i) { return i + i / 32; };  // neighbours in a phase meet different banks
  const uint32_t row = p.tiles_div.divide(blockIdx.x);
  const int first_u = p.tiles_u + static_cast<int>(blockIdx.x - row * p.tiles_div.value) * p.positions;
  const float* const of_row = static_cast<const float*>(p.partial) + row_at(p, row) + first_u;
  const int fours = p.phases * p.positions / kSumFour;
  const float* from[kEach];
  int to[kEach];
  float4 sums[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int four = static_cast<int>(threadIdx.x) + i * kSumThreads;
    const int phase = static_cast<int>(p.fours_div.divide(four));
    const int u = (four - phase * static_cast<int>(p.fours_div.value)) * kSumFour;
    const bool there = four < fours && first_u + u <= p.last_u;
    from[i] = there ? of_row + int64_t{phase} * p.phase_rows * p.partial_columns + u : nullptr;
    to[i] = there ? u * p.phases + phase : -1;
    sums[i] = {0, 0, 0, 0};
  }
  // What is loaded beyond the last split adds +0, which changes no bits.
#pragma unroll 1
  for (int split = 0; split < p.splits; split += kAhead) {
    float4 loaded[kEach][kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t step = min(split + k, p.splits - 1) * p.split_size;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        loaded[i][k] = {0, 0, 0, 0};
        if (to[i] >= 0) loaded[i][k] = *reinterpret_cast<const float4*>(from[i] + step);
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (split + k >= p.splits) break;
        const float4& v = loaded[i][k];
        sums[i] = {sums[i].x + v.x, sums[i].y + v.y, sums[i].z + v.z, sums[i].w + v.w};
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (to[i] < 0) continue;
    const float v[kSumFour] = {sums[i].x, sums[i].y, sums[i].z, sums[i].w};
#pragma unroll
    for (int j = 0; j < kSumFour; ++j) tile[at_bank(to[i] + j * p.phases)] = v[j];
  }
  __syncthreads();
  const uint32_t n = p.cout_div.divide(row);
  const Finish finish{p.bias == nullptr ? 0.0f : load_bias_to_add<T>(p.bias, row - n * p.cout)};
  T* const y = static_cast<T*>(p.output) + row * p.lout;
  const int64_t first = int64_t{first_u} * p.stride - p.padding;
#pragma unroll 4
  for (int i = threadIdx.x; i < p.phases * p.positions; i += kSumThreads) {
    if (first + i >= 0 && first + i < p.lout) y[first + i] = finish(tile[at_bank(i)]);
  }
}

}  // namespace tconv::cuda
