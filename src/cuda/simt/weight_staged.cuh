// The kernels of cuda.simt.weight_staged; weight_staged.hpp has their loop nest.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/weight_staged_chunk.cuh"
#include "cuda/simt/weight_staged_widen.cuh"

namespace tconv::cuda::simt {

// A column's channel of the group, and tap.
struct StagedColumn {
  int co, tap;
  bool valid;

  __device__ __forceinline__ StagedColumn(const StagedParams& p, int column) {
    const StagedDivision of_taps(column, p.by_k_columns);
    co = of_taps.quotient, tap = of_taps.rest;
    valid = co < p.cout_group && tap < p.k;
  }
};

// Adds Count sums across the lanes. Of two lanes, each keeps one half of the sums and gives the other away,
// until one is left, which both then keep.
template <int Count, int Apart = 16>
struct StagedTree {
  int first = 0;     // of the lane's sums
  bool kept = true;  // false if another lane stores the same sum

  __device__ __forceinline__ StagedTree(float* v, int lane) {
    const bool upper = (lane & Apart) != 0;
    constexpr int kHalf = Count / 2;
    if constexpr (Count > 1) {
#pragma unroll
      for (int s = 0; s < kHalf; ++s) {
        const float mine = upper ? v[s + kHalf] : v[s], other = upper ? v[s] : v[s + kHalf];
        v[s] = mine + __shfl_xor_sync(0xffffffffu, other, Apart);
      }
      first = upper ? kHalf : 0;
    } else {
      v[0] += __shfl_xor_sync(0xffffffffu, v[0], Apart);
      kept = !upper;
    }
    if constexpr (Apart > 1) {
      const StagedTree<(Count > 1 ? kHalf : 1), Apart / 2> rest(v, lane);
      first += rest.first;
      kept = kept && rest.kept;
    }
  }
};

// A thread's R rows x C columns, of its lane's positions.
template <class T, int R, int C>
class StagedSums {
 public:
  static constexpr int kSums = R * C;

  __device__ __forceinline__ StagedSums(const StagedParams& p, const StagedBlock<T>& block) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    slice_ = warp / (p.row_warps * p.column_warps);
    const int tile = warp - slice_ * p.row_warps * p.column_warps;
    row_ = tile / p.column_warps * R;
    column_ = tile % p.column_warps * C;
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const StagedColumn column(p, block.column0 + column_ + c);
      const StagedDivision ahead((column.tap - block.tap0) * p.dilation, p.by_stride);
      // A column beyond the last repeats the work of another one, and is not stored.
      const int place = (column.co - block.co0) * p.cout_pitch + ahead.rest * p.phase_pitch + ahead.quotient;
      offset_[c] = column.valid ? place * static_cast<int>(sizeof(float)) : 0;
    }
    const int segment = 1 << p.segment_log2;
    lane_place_ = segment >= 32 ? lane : (lane >> p.segment_log2) * p.segment_pitch + (lane & (segment - 1));
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int c = 0; c < C; ++c) sums_[r][c] = 0;
    }
  }

  __device__ __forceinline__ bool has_nan(const StagedParams& p, const StagedBlock<T>& block) const {
    bool nan = false;
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const bool valid = StagedColumn(p, block.column0 + column_ + c).valid;
#pragma unroll
      for (int r = 0; r < R; ++r) nan |= valid && row_ + r < block.rows && sums_[r][c] != sums_[r][c];
    }
    return nan;
  }

  // Every product of a chunk, those with the zeros around x and dy included.
  __device__ __forceinline__ void add_all(const StagedParams& p, const float* x, const float* dy) {
    x += row_ * kStagedRun + threadIdx.x % 32;
    dy += lane_place_;
    for (int run = slice_; run < p.runs; run += p.slices) {
      const float* const x_at = x + run * p.rows * kStagedRun;
      if (1 << p.segment_log2 >= kStagedRun) {
        const float* const dy_at = dy + step_place(p, 2 * run);
        add_step(x_at, dy_at);
        add_step(x_at + 32, dy_at + 32);
      } else {
        add_step(x_at, dy + step_place(p, 2 * run));
        add_step(x_at + 32, dy + step_place(p, 2 * run + 1));
      }
    }
  }

  // The same without products of what lies outside.
  __device__ __forceinline__ void add_inside(const StagedParams& p, const StagedBlock<T>& block, int segment0,
                                             const float* x, const float* dy) {
    const int lane = threadIdx.x % 32;
    x += row_ * kStagedRun + lane;
    dy += lane_place_;
    for (int run = slice_; run < p.runs; run += p.slices) {
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        const StagedPosition at(p, segment0, block.end, run * kStagedRun + half * 32 + lane);
        const float* const dy_at = dy + step_place(p, 2 * run + half);
#pragma unroll
        for (int c = 0; c < C; ++c) {
          const int tap = StagedColumn(p, block.column0 + column_ + c).tap;
          const int o = at.i * p.stride + tap * p.dilation - p.padding;
          if (!at.valid || static_cast<unsigned>(o) >= static_cast<unsigned>(p.lout)) continue;
          const float b = of_column(dy_at, c);
#pragma unroll
          for (int r = 0; r < R; ++r) {
            sums_[r][c] = fma(x[(run * p.rows + r) * kStagedRun + half * 32], b, sums_[r][c]);
          }
        }
      }
    }
  }

  // The warp's sums, each to its place in shared memory.
  __device__ __forceinline__ void reduce(const StagedParams& p, float* to) const {
    const int lane = threadIdx.x % 32;
    float v[kSums];
#pragma unroll
    for (int s = 0; s < kSums; ++s) v[s] = sums_[s / C][s % C];
    const StagedTree<kSums> tree(v, lane);
    to += threadIdx.x / 32 * kSums + tree.first;
#pragma unroll
    for (int s = 0; s < (kSums + 31) / 32; ++s) {
      if (tree.kept) to[s] = v[s];
    }
  }

 private:
  // Where the positions of a step of 32 begin in a phase of dy.
  __device__ __forceinline__ static int step_place(const StagedParams& p, int step) {
    const int t = step * 32, segment = t >> p.segment_log2;
    return segment * p.segment_pitch + (t & ((1 << p.segment_log2) - 1));
  }

  __device__ __forceinline__ void add_step(const float* x, const float* dy) {
    float a[R], b[C];
#pragma unroll
    for (int r = 0; r < R; ++r) a[r] = x[r * kStagedRun];
#pragma unroll
    for (int c = 0; c < C; ++c) b[c] = of_column(dy, c);
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int c = 0; c < C; ++c) sums_[r][c] = fma(a[r], b[c], sums_[r][c]);
    }
  }

  // One addition makes the address.
  __device__ __forceinline__ float of_column(const float* dy, int c) const {
    return *reinterpret_cast<const float*>(reinterpret_cast<const char*>(dy) + offset_[c]);
  }

  float sums_[R][C];
  int offset_[C];  // in bytes
  int slice_, row_, column_, lane_place_;
};

// Adds up a split's chunks; each is copied while the one before is multiplied. inside: leaves out products of
// what lies outside.
template <class T, int R, int C>
__device__ __forceinline__ void staged_add(const StagedParams& p, const StagedBlock<T>& block, bool inside,
                                           float* buffers, StagedSums<T, R, C>& sums) {
  const int dy_place = p.rows * p.runs * kStagedRun;
  float *filled = buffers, *next = buffers + p.buffer_words;
  for (int at = block.first - p.chunk_segments; at < block.end; at += p.chunk_segments) {
    const int ahead = at + p.chunk_segments;
    if (ahead < block.end) {
      if constexpr (std::is_same_v<T, float>) {
        stage_x<R>(p, block, ahead, next);
        stage_dy(p, block, ahead, next + dy_place);
      } else {
        constexpr int kLoads = R * C == 64 ? 4 : 8;  // for which there are registers
        widen_x<kLoads, R>(p, block, ahead, next);
        widen_dy<kLoads>(p, block, ahead, next + dy_place);
      }
    }
    staged_commit();
    if (at >= block.first) {
      staged_wait();
      __syncthreads();
      if (inside) {
        sums.add_inside(p, block, at, filled, filled + dy_place);
      } else {
        sums.add_all(p, filled, filled + dy_place);
      }
      __syncthreads();  // before the buffer is written again
    }
    float* const free = filled;
    filled = next;
    next = free;
  }
}

// The sums of warps that share a tile, in their order, to dw or the split's part of it.
template <class T, int R, int C>
__device__ __forceinline__ void staged_store(const StagedParams& p, const StagedBlock<T>& block,
                                             const float* of_warps) {
  constexpr int kSums = R * C;
  const int tiles = p.row_warps * p.column_warps;
  for (int s = threadIdx.x; s < tiles * kSums; s += blockDim.x) {
    const int tile = s / kSums, sum = s % kSums;
    const int row = tile / p.column_warps * R + sum / C;
    const StagedColumn place(p, block.column0 + tile % p.column_warps * C + sum % C);
    if (row >= block.rows || !place.valid) continue;
    float v = of_warps[s];
    for (int slice = 1; slice < p.slices; ++slice) v += of_warps[slice * tiles * kSums + s];
    const int64_t to =
        ((int64_t{block.group} * p.cin_group + block.ci0 + row) * p.cout_group + place.co) * p.k + place.tap;
    if (p.parts != nullptr) {
      static_cast<float*>(p.parts)[block.split * p.elements + to] = v;
    } else {
      static_cast<T*>(p.output)[to] = narrow<T>(v);
    }
  }
}

template <class T, int R, int C>
__global__ void __launch_bounds__(32 * staged_warps(R * C), staged_blocks(R* C))
    staged_kernel(const __grid_constant__ StagedParams p) {
  wait_for_launch_before();
  extern __shared__ __align__(16) unsigned char shared[];
  float* const buffers = reinterpret_cast<float*>(shared);
  const StagedBlock<T> block(p);
  StagedSums<T, R, C> sums(p, block);
#pragma unroll 1
  for (int inside = 0; inside < 2; ++inside) {
    sums.clear();
    staged_add(p, block, inside != 0, buffers, sums);
    if (!__syncthreads_or(sums.has_nan(p, block))) break;
  }
  sums.reduce(p, buffers);
  __syncthreads();
  staged_store<T, R, C>(p, block, buffers);
}

template <class T>
StagedFunctions staged_functions_of() {
  return {{staged_kernel<T, 8, 8>, staged_kernel<T, 8, 4>, staged_kernel<T, 8, 2>, staged_kernel<T, 4, 8>,
           staged_kernel<T, 2, 8>, staged_kernel<T, 1, 8>}};
}

}  // namespace tconv::cuda::simt
