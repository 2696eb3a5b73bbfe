// Adds partial sums of many phases (ordered_sum.hpp) by tiles of a row (n, cout) of y, 64 phases x 32
// positions. A row of partial sums runs along the positions and a row of y along the phases, so a tile goes
// through shared memory, and both are accessed side by side.
//
//   for each row of y, tile of positions, tile of phases:                                       a block
//     sums[phase][u] = partial[0][phase][u] + partial[1][phase][u] + ...                in this order
//     y[stride*u + phase - padding] = epilogue(sums[phase][u])
//
// Every output then has a phase, and phases are in the order of outputs: dilation 1, as many as the stride.
// For each output ordered_sum.cuh would read a row of its own: n1 ci514 co1 l115955 k512 s256 takes 0.21 ms
// for what memory could move in 0.06 (H200).
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/device/ordered_sum.cuh"

namespace tconv::cuda {

template <class T, class Sum>
__global__ void __launch_bounds__(kSumThreads)
    phase_tiles_kernel(const __grid_constant__ PhaseTilesParams p) {
  wait_for_launch_before();
  using Finish = epilogue::Epilogue<DeviceRounding<T, Sum>>;
  constexpr int kWarps = kSumThreads / 32, kRows = kSumTilePhases / kWarps;
  __shared__ Sum tile[kSumTilePhases][kSumTilePositions + 1];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t place = p.phase_tiles_div.divide(blockIdx.x), row = p.position_tiles_div.divide(place);
  const int first_phase = static_cast<int>(blockIdx.x - place * p.phase_tiles_div.value) * kSumTilePhases;
  const int first_u =
      p.tiles_u + static_cast<int>(place - row * p.position_tiles_div.value) * kSumTilePositions;
  const uint32_t n = p.cout_div.divide(row), cout = row - n * p.cout;
  const uint32_t group = p.cout_group_div.divide(cout), inner = cout - group * p.cout_group;
  const uint32_t block = p.block_couts_div.divide(inner);
  const int64_t sums_row = group * p.group_rows + int64_t{block} * p.block_rows +
                           int64_t{inner - block * p.block_couts} * p.cout_rows;
  const Sum* const from =
      static_cast<const Sum*>(p.partial) + int64_t{n} * p.sample_columns + (first_u + lane - p.first_u);
  Sum sums[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int phase = first_phase + warp + i * kWarps;
    const int64_t at = (sums_row + int64_t{phase} * p.phase_rows) * p.partial_columns;
    sums[i] = phase < p.phases && first_u + lane <= p.last_u
                  ? sum_in_order<4, Sum>(from + at, p.split_size, p.splits)
                  : Sum(0);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) tile[warp + i * kWarps][lane] = sums[i];
  __syncthreads();
  const Finish finish{p.bias == nullptr ? Sum(0) : Sum(load_bias_to_add<T>(p.bias, cout))};
  T* const y = static_cast<T*>(p.output) + int64_t{row} * p.lout;
#pragma unroll
  for (int i = 0; i < kSumTilePositions / kWarps; ++i) {
    const int u = warp + i * kWarps;
    const int64_t o = int64_t{first_u + u} * p.stride - p.padding + first_phase + lane;
#pragma unroll
    for (int h = 0; h < kSumTilePhases; h += 32) {
      const bool there = first_phase + h + lane < p.phases && o + h >= 0 && o + h < p.lout;
      if (there) y[o + h] = finish(tile[h + lane][u]);
    }
  }
}

}  // namespace tconv::cuda
