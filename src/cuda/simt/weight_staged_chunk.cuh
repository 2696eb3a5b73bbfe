// A chunk of cuda.simt.weight_staged: from global to shared memory.
#pragma once

#include "cuda/device/ptx/sm80.cuh"
#include "cuda/simt/weight_staged.hpp"

namespace tconv::cuda::simt {

// Quotient and remainder.
struct StagedDivision {
  int quotient, rest;

  __device__ __forceinline__ StagedDivision(int n, const Divisor& by) {
    quotient = static_cast<int>(by.divide(n));
    rest = n - quotient * static_cast<int>(by.value);
  }
};

// What a block sums.
template <class T>
struct StagedBlock {
  int split, group, ci0, column0, co0;
  int tap0;  // the first that is staged
  int rows, couts;
  int first, end;  // segments
  const T* x;
  const T* y;

  __device__ __forceinline__ explicit StagedBlock(const StagedParams& p) {
    const StagedDivision of_tiles(blockIdx.x, p.by_tiles);
    const StagedDivision of_columns(of_tiles.rest, p.by_column_tiles);
    const StagedDivision of_rows(of_columns.quotient, p.by_row_tiles);
    split = of_tiles.quotient, group = of_rows.quotient;
    column0 = of_columns.rest * p.columns, ci0 = of_rows.rest * p.rows;
    const StagedDivision of_taps(column0, p.by_k_columns);
    co0 = of_taps.quotient, tap0 = p.taps < p.k ? of_taps.rest : 0;
    rows = min(p.rows, p.cin_group - ci0), couts = min(p.couts, p.cout_group - co0);
    x = static_cast<const T*>(p.x) + (int64_t{group} * p.cin_group + ci0) * p.x_step[1];
    y = static_cast<const T*>(p.y) + (int64_t{group} * p.cout_group + co0) * p.y_step[1];
    first = split * p.split_segments;
    end = min(p.segments, first + p.split_segments);
  }
};

// A segment's sample and first position.
struct StagedSegment {
  int n, i;

  __device__ __forceinline__ StagedSegment(const StagedParams& p, int segment) {
    const StagedDivision of_sample(segment, p.by_sample_segments);
    n = of_sample.quotient, i = of_sample.rest << p.segment_log2;
  }
};

// A position of a chunk: its segment, and its place in the sample.
struct StagedPosition {
  int n, i;
  bool valid;

  __device__ __forceinline__ StagedPosition(const StagedParams& p, int segment0, int end, int t) {
    const int index = segment0 + (t >> p.segment_log2);
    const StagedSegment segment(p, index);
    n = segment.n, i = segment.i + (t & ((1 << p.segment_log2) - 1));
    valid = index < end && i < p.l;
  }
};

// From compute capability 8.0 on, copies to shared memory are asynchronous.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ void staged_copy(float* to, const float* from, bool there) {
  ptx::copy_async4(ptx::shared_address(to), from, there);
}
__device__ __forceinline__ void staged_commit() {
  ptx::copy_async_commit();
}
// Waits until at most the last committed chunk is under way.
__device__ __forceinline__ void staged_wait() {
  ptx::copy_async_wait<1>();
}
#else
__device__ __forceinline__ void staged_copy(float* to, const float* from, bool there) {
  *to = there ? __ldg(from) : 0.f;
}
__device__ __forceinline__ void staged_commit() {}
__device__ __forceinline__ void staged_wait() {}
#endif

// A lane's elements of Count channels; those from `there` on are zero.
template <int Count>
__device__ __forceinline__ void staged_move(float* to, int to_step, const float* from, int64_t from_step,
                                            int there) {
  if (there == 0 || there >= Count) {
#pragma unroll
    for (int i = 0; i < Count; ++i) staged_copy(to + i * to_step, from + i * from_step, there != 0);
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) staged_copy(to + i * to_step, from + i * from_step, i < there);
  }
}

// 32 positions of a crew's rows. kRows: at once, a divisor of all. rows: that x has.
template <int kRows>
__device__ __forceinline__ void stage_step(const StagedParams& p, int crew, int rows, const float* from,
                                           float* to) {
  const int step = p.x_crews * kRows;
  for (int row = crew * kRows; row < p.rows; row += step) {
    staged_move<kRows>(to, kStagedRun, from, p.x_step[1], max(rows - row, 0));
    to += step * kStagedRun;
    from += step * p.x_step[1];
  }
}

// to: [run][row][kStagedRun]. A warp moves steps of 32 positions of all rows; where there are fewer steps
// than warps, crews of warps share the rows.
template <int kRows>
__device__ __forceinline__ void stage_x(const StagedParams& p, const StagedBlock<float>& block, int segment0,
                                        float* to) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, steps = 2 * p.runs;
  const int crew = p.x_crews > 1 ? warp / steps : 0;
  if (crew >= p.x_crews) return;
  const float* const crew_from = block.x + crew * kRows * p.x_step[1];
  to += crew * kRows * kStagedRun + lane;
  auto place = [&](int step) { return to + step / 2 * (p.rows * kStagedRun) + step % 2 * 32; };
  const int first = warp - crew * steps;
  if (p.chunk_segments == 1) {
    const StagedSegment segment(p, segment0);
    const float* const from = crew_from + segment.n * p.x_step[0] + segment.i * p.x_step[2];
    for (int step = first; step < steps; step += p.x_warps) {
      const int t = step * 32 + lane;
      stage_step<kRows>(p, crew, segment.i + t < p.l ? block.rows : 0, from + t * p.x_step[2], place(step));
    }
    return;
  }
  for (int step = first; step < steps; step += p.x_warps) {
    const StagedPosition at(p, segment0, block.end, step * 32 + lane);
    stage_step<kRows>(p, crew, at.valid ? block.rows : 0, crew_from + at.n * p.x_step[0] + at.i * p.x_step[2],
                      place(step));
  }
}

// A place of a window to all channels of a crew, or zeros. kCouts: at once, a divisor of all.
template <int kCouts>
__device__ __forceinline__ void stage_place(const StagedParams& p, int crew, int couts, const float* from,
                                            float* to, int place) {
  const StagedDivision in_phase(place, p.by_stride);
  if (in_phase.rest >= p.phases) return;
  to += in_phase.rest * p.phase_pitch + in_phase.quotient;
  const int step = p.dy_crews * kCouts;
  for (int co = crew * kCouts; co < p.couts; co += step) {
    staged_move<kCouts>(to, p.cout_pitch, from, p.y_step[1], max(couts - co, 0));
    to += step * p.cout_pitch;
    from += step * p.y_step[1];
  }
}

// to: [co][phase][segment][position]. Threads move a place each of all channels, or crews of threads share
// the channels.
template <int kCouts>
__device__ __forceinline__ void stage_couts(const StagedParams& p, const StagedBlock<float>& block,
                                            int segment0, float* to) {
  const int crew = p.dy_crews > 1 ? threadIdx.x / p.dy_threads : 0;
  if (crew >= p.dy_crews) return;
  const int first = threadIdx.x - crew * p.dy_threads;
  const float* const crew_from = block.y + crew * kCouts * p.y_step[1];
  to += crew * kCouts * p.cout_pitch;
  const int tap_place = block.tap0 * p.dilation - p.padding;
  auto couts = [&](int o) {
    return static_cast<unsigned>(o) < static_cast<unsigned>(p.lout) ? block.couts : 0;
  };
  if (p.chunk_segments == 1) {
    const StagedSegment segment(p, segment0);
    const int o = segment.i * p.stride + tap_place;
    const float* const from = crew_from + segment.n * p.y_step[0] + o * p.y_step[2];
    for (int q = first; q < p.window; q += p.dy_threads) {
      stage_place<kCouts>(p, crew, couts(o + q), from + q * p.y_step[2], to, q);
    }
    return;
  }
  for (int place = first; place < p.chunk_segments * p.window; place += p.dy_threads) {
    const int s = StagedDivision(place, p.by_window).quotient, q = place - s * p.window;
    const StagedSegment segment(p, segment0 + s);
    const int o = segment.i * p.stride + tap_place + q;
    stage_place<kCouts>(p, crew, segment0 + s < block.end ? couts(o) : 0,
                        crew_from + segment.n * p.y_step[0] + o * p.y_step[2], to + s * p.segment_pitch, q);
  }
}
__device__ __forceinline__ void stage_dy(const StagedParams& p, const StagedBlock<float>& block, int segment0,
                                         float* to) {
  if (p.couts % 4 == 0) {
    stage_couts<4>(p, block, segment0, to);
  } else {
    stage_couts<1>(p, block, segment0, to);
  }
}

}  // namespace tconv::cuda::simt
