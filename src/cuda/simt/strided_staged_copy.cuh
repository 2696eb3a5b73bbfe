// What strided_staged.cuh copies to shared memory: windows of dy, weights, and where terms read them.
#pragma once

#include "cuda/device/ptx/sm80.cuh"
#include "cuda/simt/storage.cuh"
#include "cuda/simt/strided_staged.hpp"

namespace tconv::cuda::simt {

// Copies to shared memory, of an element (zero if it does not exist) and of a vector. From compute capability
// 8.0 on they are asynchronous.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy_element(float* to, const float* from, bool there) {
  ptx::copy_async4(static_cast<uint32_t>(__cvta_generic_to_shared(to)), from, there);
}
__device__ __forceinline__ void end_copies() {
  ptx::copy_async_commit();
}
// Waits until at most that many later stages are under way.
__device__ __forceinline__ void wait_for_stage(int later) {
  if (later >= 2) {
    ptx::copy_async_wait<2>();
  } else if (later == 1) {
    ptx::copy_async_wait<1>();
  } else {
    ptx::copy_async_wait<0>();
  }
}
__device__ __forceinline__ void copy_vector(float* to, const float* from) {
  ptx::copy_async16(static_cast<uint32_t>(__cvta_generic_to_shared(to)), from);
}
#else
__device__ __forceinline__ void copy_element(float* to, const float* from, bool there) {
  *to = there ? __ldg(from) : 0.f;
}
__device__ __forceinline__ void copy_vector(float* to, const float* from) {
  *reinterpret_cast<uint4*>(to) = __ldg(reinterpret_cast<const uint4*>(from));
}
__device__ __forceinline__ void end_copies() {}
__device__ __forceinline__ void wait_for_stage(int) {}
#endif

// A block's place in the problem, and what it stages.
struct StridedBlock {
  const float* dy;      // of the group's first channel
  const float* weight;  // of the first row
  int64_t n, ci, begin;
  int64_t first;  // place in dy of the first position's first tap
  int rows;       // of the block, that exist
  bool inside;    // all that is staged is dy's
  bool vectors;   // and all of the vectors around it

  __device__ __forceinline__ explicit StridedBlock(const StridedStagedParams& p, int block_rows,
                                                   int block_positions) {
    int64_t index = blockIdx.x;
    const int64_t row = take_digit(index, p.row_blocks) * block_rows;
    begin = take_digit(index, p.parts) * block_positions;
    const int64_t group = take_digit(index, p.groups);
    n = index;
    ci = group * p.cin_group + row;
    rows = static_cast<int>(min(int64_t{block_rows}, p.cin_group - row));
    dy = static_cast<const float*>(p.dy) + n * p.dy_step[0] + group * p.cout_group * p.dy_step[1];
    weight = static_cast<const float*>(p.weight) + ci * p.cout_group * p.k;
    first = begin * p.stride - p.padding;
    const int64_t last = p.contiguous ? first + p.slot_row - 1
                                      : first + p.stride * (p.slot_row - 1) + p.dilation * (p.slots - 1);
    inside = first >= 0 && last < p.lout;
    vectors = p.contiguous && first >= 3 && last + 3 < p.lout;
  }

  // Windows that lie in one piece keep their place in vectors of 16 bytes.
  __device__ __forceinline__ int shift(const StridedStagedParams& p, int64_t co) const {
    if (!p.contiguous) return 0;
    return static_cast<int>(reinterpret_cast<uintptr_t>(dy + co * p.dy_step[1] + first) / sizeof(float) % 4);
  }
};

// What a thread copies of each stage: places of the windows of each runs-th channel.
struct StridedCopy {
  int channel, u, j;  // the first channel; slot j, place u of the first element

  __device__ __forceinline__ explicit StridedCopy(const StridedStagedParams& p) {
    const int thread = static_cast<int>(threadIdx.x);
    channel = thread / p.copy_lanes;
    const int e = thread - channel * p.copy_lanes;
    u = e / p.slots, j = e - u * p.slots;
  }
};

// The windows of `count` channels as they lie in memory: one warp per channel.
__device__ __forceinline__ void stage_rows(const StridedStagedParams& p, const StridedBlock& block, float* to,
                                           int64_t co, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warps = static_cast<int>(blockDim.x) / 32;
  int c = static_cast<int>(threadIdx.x) / 32;
  to += c * p.channel_pitch;
  for (; c < count; c += warps, to += warps * p.channel_pitch) {
    const float* const from = block.dy + (co + c) * p.dy_step[1] + block.first;
    const int shift = block.shift(p, co + c);
    if (block.vectors) {
      const int end = shift + p.slot_row;
#pragma unroll 4
      for (int e = 4 * lane; e < end; e += 128) copy_vector(to + e, from - shift + e);
    } else {
      for (int e = lane; e < p.slot_row; e += 32) {
        const bool there = static_cast<uint64_t>(block.first + e) < static_cast<uint64_t>(p.lout);
        copy_element(to + shift + e, there ? from + e : block.dy, there);
      }
    }
  }
}

// The windows of `count` channels. Threads of a channel lie along dy, as far as its slots do.
__device__ __forceinline__ void stage_slots(const StridedStagedParams& p, const StridedBlock& block,
                                            const StridedCopy& copy, float* to, int64_t co, int count) {
  const float* const from = block.dy + (co + copy.channel) * p.dy_step[1];
  const int64_t channel_step = p.copy_runs * p.dy_step[1];
  const int place_step = p.copy_runs * p.channel_pitch;
  to += copy.channel * p.channel_pitch;
  for (int u = copy.u, j = copy.j; u < p.slot_row; u += p.u_step, j += p.j_step) {
    if (j >= p.slots) {
      j -= p.slots;
      if (++u >= p.slot_row) break;
    }
    const int64_t o = block.first + p.stride * u + p.dilation * j;
    const bool there = block.inside || static_cast<uint64_t>(o) < static_cast<uint64_t>(p.lout);
    const float* at = from + (there ? o * p.dy_step[2] : 0);
    float* place = to + j * p.slot_pitch + u;
#pragma unroll 4
    for (int c = copy.channel; c < count; c += p.copy_runs, at += channel_step, place += place_step) {
      copy_element(place, at, there);
    }
  }
}

// Calls of(row, term) for the thread's part of the weights of `terms` (channel, tap): eight terms of four
// rows a warp, which lie in different banks and fill sectors of memory.
template <int R, class Of>
__device__ __forceinline__ void for_weights(int block_rows, int terms, Of&& of) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warps = static_cast<int>(blockDim.x) / 32;
  constexpr int kRows = R >= 4 ? 4 : 1, kTerms = 32 / kRows;
  const int row = lane / kTerms, term = lane % kTerms;
  const int pieces = (terms + kTerms - 1) / kTerms;
  int from = 0, piece = static_cast<int>(threadIdx.x) / 32;
  while (true) {
    while (piece >= pieces) piece -= pieces, from += kRows;
    if (from >= block_rows) break;
    const int t = piece * kTerms + term;
    if (t < terms) of(from + row, t);
    piece += warps;
  }
}

template <int R>
__device__ __forceinline__ void bring_stage(const StridedStagedParams& p, const StridedBlock& block,
                                            const StridedCopy& copy, float* stage, int64_t chunk,
                                            int block_rows) {
  const int64_t co = chunk * p.channels;
  if (co < p.cout_group) {
    const int count = static_cast<int>(min(int64_t{p.channels}, p.cout_group - co));
    if (p.contiguous) {
      stage_rows(p, block, stage, co, count);
    } else {
      stage_slots(p, block, copy, stage, co, count);
    }
    float* const weights = stage + p.weights_at;
    const float* const from = block.weight + co * p.k;
    const int64_t row_step = p.cout_group * p.k;
    for_weights<R>(block_rows, count * static_cast<int>(p.k), [&](int row, int term) {
      const bool there = row < block.rows;
      copy_element(weights + term * p.weight_pitch + row, from + (there ? row * row_step : 0) + term, there);
    });
  }
  end_copies();
}

// Where in a stage's windows each term reads the first position, in bytes.
__device__ __forceinline__ void fill_terms(const StridedStagedParams& p, const StridedBlock& block,
                                           int* table) {
  const int k = static_cast<int>(p.k);
  for (int t = static_cast<int>(threadIdx.x); t < p.channels * k; t += static_cast<int>(blockDim.x)) {
    const int c = t / k, tap = t - c * k, turn = tap / p.slots;
    table[t] = 4 * (c * p.channel_pitch + block.shift(p, c) + (tap - turn * p.slots) * p.slot_pitch +
                    turn * p.tap_step);
  }
}

}  // namespace tconv::cuda::simt
