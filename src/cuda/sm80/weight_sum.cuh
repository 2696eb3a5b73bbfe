// The second launch of cuda.sm80.weight and cuda.sm90.weight: adds the parts of all splits in order.
#pragma once

#include "cuda/device/ordered_sum.cuh"
#include "cuda/sm80/weight_modes.cuh"

namespace tconv::cuda::sm80::weight {

// Where element (ci, co, k) of dw is in a part. Tiles have more elements than dw, so the place has 64 bits.
__device__ inline int64_t place_in_part(const WeightSumParams& p, uint32_t e) {
  const uint32_t pair = p.by_k.divide(e), k = e - pair * p.by_k.value;
  const uint32_t channel = p.by_cout.divide(pair), co = pair - channel * p.by_cout.value;
  const uint32_t group = p.by_cin.divide(channel), ci = channel - group * p.by_cin.value;
  const uint32_t shift = p.by_tap_stride.divide(k), phase = k - shift * p.by_tap_stride.value;
  const uint32_t cout_block = p.by_couts.divide(co), phase_block = p.by_phases.divide(phase);
  const uint32_t tap_block = p.by_taps.divide(shift), row_tile = p.by_rows.divide(ci);
  uint32_t tile = group * p.cout_blocks + cout_block;
  tile = tile * p.phase_blocks + phase_block;
  tile = tile * p.tap_blocks + tap_block;
  tile = tile * p.row_tiles + row_tile;
  const uint32_t column = (shift - tap_block * p.by_taps.value) * p.rows +
                          (co - cout_block * p.by_couts.value) * p.by_phases.value + phase -
                          phase_block * p.by_phases.value;
  return (int64_t{tile} * p.by_rows.value + ci - row_tile * p.by_rows.value) * p.tile_columns + column;
}

// A thread an element of dw, so that neighbours store side by side; its parts lie in runs of phases, or of
// couts, which a block reads together. `runs` threads share an element, so that many splits of a small dw
// are under way together: each adds its run of splits, and the first adds the runs.
template <class Mode>
__global__ void __launch_bounds__(kWeightSumThreads)
    weight_sum_kernel(const __grid_constant__ WeightSumParams p) {
  wait_for_launch_before();
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;
  constexpr int kAhead = 8;  // as many parts as an element with one run has, mostly
  __shared__ Sum of_runs[kWeightSumThreads];
  const uint32_t outputs = kWeightSumThreads >> p.runs_shift, lane = threadIdx.x & (outputs - 1);
  const int runs = 1 << p.runs_shift, run = static_cast<int>(threadIdx.x / outputs);
  const uint32_t e = blockIdx.x * outputs + lane;
  const bool there = e < p.elements;
  const int first = p.splits * run / runs, end = p.splits * (run + 1) / runs;
  const int64_t at[1] = {there && first < end ? place_in_part(p, e) + first * p.part_size : -1};
  Sum sum[1];
  sum_together<kAhead>(sum, static_cast<const Sum*>(p.parts), at, p.part_size, end - first);
  if (runs > 1) {
    of_runs[threadIdx.x] = sum[0];
    __syncthreads();
    for (int r = 1; run == 0 && r < runs; ++r) sum[0] += of_runs[r * outputs + lane];
  }
  if (run == 0 && there) static_cast<T*>(p.output)[e] = narrow<T>(sum[0]);
}

}  // namespace tconv::cuda::sm80::weight
