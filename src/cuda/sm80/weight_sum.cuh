// The second launch of cuda.sm80.weight: adds the parts of all splits in order.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/sm80/weight_modes.cuh"

namespace tconv::cuda::sm80::weight {

// A block adds the parts of kWeightSumOutputs neighbouring places; some may belong to no output. Each has
// kWeightSumGroups threads, whose runs of splits are added in order.
template <class Mode>
__global__ void __launch_bounds__(kWeightSumOutputs* kWeightSumGroups)
    weight_sum_kernel(const __grid_constant__ WeightSumParams p) {
  wait_for_launch_before();
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;
  __shared__ Sum of_groups[kWeightSumGroups][kWeightSumOutputs];
  const int lane = threadIdx.x % kWeightSumOutputs, runs = threadIdx.x / kWeightSumOutputs;
  const int64_t e = int64_t{blockIdx.x} * kWeightSumOutputs + lane;
  const int64_t row_in_all = divide(e, p.tile_columns), tile = divide(row_in_all, p.tile_rows);
  const int c = static_cast<int>(e - row_in_all * p.tile_columns);
  int rest = static_cast<int>(tile);
  const int row_tile = rest % p.row_tiles;
  rest /= p.row_tiles;
  const int tap_block = rest % p.tap_blocks;
  rest /= p.tap_blocks;
  const int phase_block = rest % p.phase_blocks;
  rest /= p.phase_blocks;
  const int cout_block = rest % p.cout_blocks, group = rest / p.cout_blocks;
  const int local_tap = c / p.rows, row = c - local_tap * p.rows, local_cout = row / p.block_phases;
  const int ci = row_tile * p.tile_rows + static_cast<int>(row_in_all - tile * p.tile_rows);
  const int co = cout_block * p.block_couts + local_cout;
  const int phase = phase_block * p.block_phases + row - local_cout * p.block_phases;
  const int k = phase + (tap_block * p.block_taps + local_tap) * p.tap_stride;
  const bool there = e < p.part_size && local_tap < p.block_taps && ci < p.cin_group && co < p.cout_group &&
                     phase < min(p.tap_stride, p.k) && k < p.k;
  Sum sum = 0;
  if (there) {
    const Sum* at = static_cast<const Sum*>(p.parts) + e;
    const int first = p.splits * runs / kWeightSumGroups, end = p.splits * (runs + 1) / kWeightSumGroups;
#pragma unroll 8
    for (int split = first; split < end; ++split) sum += at[split * p.part_size];
  }
  of_groups[runs][lane] = sum;
  __syncthreads();
  if (runs != 0 || !there) return;
#pragma unroll
  for (int r = 1; r < kWeightSumGroups; ++r) sum += of_groups[r][lane];
  const int64_t to = ((int64_t{group} * p.cin_group + ci) * p.cout_group + co) * p.k + k;
  static_cast<T*>(p.output)[to] = narrow<T>(sum);
}

}  // namespace tconv::cuda::sm80::weight
