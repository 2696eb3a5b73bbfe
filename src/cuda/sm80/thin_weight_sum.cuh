// Where the sums of cuda.sm80.thin_weight go: those of the depth's warps together, and to a walker's part.
#pragma once

#include "cuda/sm80/thin_weight_product.cuh"

namespace tconv::cuda::sm80::thin_weight {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// The element of dw that sum s of a lane is.
struct Element {
  int ci, co, tap;
  bool there;

  __device__ Element(const ThinWeightParams& p, const Task& task, int tile_columns, int s) {
    const int lane = threadIdx.x % 32, e = s % 4, j = s / 4 % tile_columns, i = s / 4 / tile_columns;
    const int row = (task.rows.first_tile + task.row_tile + i) * kThinWeightRows + lane / 4 + e / 2 * 8;
    const int column =
        (task.columns.first_tile + task.column_tile + j) * kThinWeightColumns + lane % 4 * 2 + e % 2;
    there = task.row_tile + i < task.rows.tiles && task.column_tile + j < task.columns.tiles &&
            row < p.rows.channels * p.rows.taps && column < p.columns.channels * p.columns.taps;
    const int moving = p.rows_move ? row : column;
    ci = p.rows_move ? column : row;
    co = static_cast<int>((p.rows_move ? p.rows : p.columns).by_taps.divide(moving));
    tap = moving - co * p.k;
  }
  __device__ float* part(const ThinWeightParams& p, const Task& task) const {
    return static_cast<float*>(p.output) + task.walker * p.part_size +
           ((int64_t{task.group} * p.cin_group + ci) * p.k + tap) * p.cout_group + co;
  }
};

// Adds sums in shared memory to the walker's part, or stores them. Returns whether one may include a product
// that does not exist. As a function of its own: what it looks up would fill registers in the kernel's loop.
template <class Mode, int kMi, int kNi>
__device__ __noinline__ bool store_sums(const ThinWeightParams& p, const float* own, bool first) {
  const Task task(p, kMi, kNi);
  bool again = false;
#pragma unroll 1
  for (int s = task.depth; s < kMi * kNi * 4; s += 1 << p.depth_warp_bits) {
    const Element element(p, task, kNi, s);
    if (!element.there) continue;
    const float v = own[s * 32];
    again = again || weight::suspicious<Mode>(v);
    float* const to = element.part(p, task);
    *to = first ? v : *to + v;
  }
  return again;
}

// Adds the sums of the depth's warps in order, in the place of words that have been read, and stores them.
template <class Mode, int kMi, int kNi>
__device__ __forceinline__ bool finish_chain(const ThinWeightParams& p, const Task& task, float* area,
                                             bool first, Products<Mode, kMi, kNi>& products) {
  constexpr int kSums = kMi * kNi * 4;
  float* const own = area + (threadIdx.x / 32 >> p.depth_warp_bits) * (kSums * 32) + threadIdx.x % 32;
#pragma unroll 1
  for (int depth = 0; depth < 1 << p.depth_warp_bits; ++depth) {
    __syncthreads();
    if (task.depth != depth) continue;
#pragma unroll
    for (int s = 0; s < kSums; ++s)
      own[s * 32] = depth == 0 ? products.total(s) : own[s * 32] + products.total(s);
  }
  __syncthreads();
  products.clear();
  return store_sums<Mode, kMi, kNi>(p, own, first);
}

// One sum of a walker, by fused multiply-adds over the products that exist. It ends soon after its first NaN,
// and keeps several loads under way: one pair at a time would wait for memory at each product.
template <class Mode>
__device__ inline float exact_sum(const ThinWeightParams& p, const Task& task, const Element& element) {
  using T = typename Mode::T;
  constexpr int kAhead = 4;
  const ThinWeightSide &x = p.rows_move ? p.columns : p.rows, &y = p.rows_move ? p.rows : p.columns;
  const auto channel_of = [&](const ThinWeightSide& s, int channel) {
    return static_cast<const T*>(s.from) + (int64_t{task.group} * s.channels + channel) * s.step[1];
  };
  const T* const x_channel = channel_of(x, element.ci);
  const T* const y_channel = channel_of(y, element.co);
  const int64_t origin = int64_t{y.dilation} * element.tap - y.lead;
  float sum = 0;
#pragma unroll 1
  for (int tile = task.first; tile < task.end && sum == sum; ++tile) {
    const auto n = static_cast<int>(p.sample_tiles.divide(tile));
    const int64_t first = int64_t{tile - n * static_cast<int>(p.sample_tiles.value)} * p.tile_positions;
    const int64_t end = min(p.positions, first + p.tile_positions);
    const T* const x_row = x_channel + n * x.step[0];
    const T* const y_row = y_channel + n * y.step[0];
#pragma unroll 1
    for (int64_t i = first; i < end && sum == sum; i += kAhead) {
      float a[kAhead], b[kAhead];
      bool there[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int64_t o = y.stride * (i + j) + origin;
        there[j] = i + j < end && o >= 0 && o < y.length;
        a[j] = there[j] ? widen(__ldg(x_row + i + j)) : 0;
        b[j] = there[j] ? widen(__ldg(y_row + o)) : 0;
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (there[j]) sum = fma(Mode::operand(a[j]), Mode::operand(b[j]), sum);
      }
    }
  }
  return sum;
}

// Of the sums that this thread has stored, computes the suspicious ones again, over all chains.
template <class Mode, int kMi, int kNi>
__device__ __noinline__ void repair(const ThinWeightParams& p) {
  const Task task(p, kMi, kNi);
#pragma unroll 1
  for (int s = task.depth; s < kMi * kNi * 4; s += 1 << p.depth_warp_bits) {
    const Element element(p, task, kNi, s);
    if (!element.there) continue;
    float* const to = element.part(p, task);
    if (weight::suspicious<Mode>(*to)) *to = exact_sum<Mode>(p, task, element);
  }
}

#endif

}  // namespace tconv::cuda::sm80::thin_weight
