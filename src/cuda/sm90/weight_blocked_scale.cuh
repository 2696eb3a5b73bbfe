// Float32 held in float16 by cuda.sm90.weight_blocked: a power of two for each channel of x and of dy.
//
//   for channel of x or dy, share of its elements:  most[channel][share] = the largest finite magnitude
//   the pass, for 8 planes:  exponents[plane] puts the channel's largest into [2^14, 2^15)
//                            tiny[8 planes] += numbers that are then below 2^-14, but not zero
//   the last sums, of a row and a column:  times 2^(both exponents), unless they may miss too much
//
// Channels have scales of their own because each output has one channel of x and one of dy: dying channels,
// or gradients about 1e-30, are as exact as others. One scale serves all samples and positions of a channel,
// so that the product needs none; 2^28 lie between its largest number and the least that float16 holds as
// well.
//
// What a tiny number loses: a multiple of 2^-24 at most 2^-25 away is held, in two parts at most 2^-36, and
// in two parts the product of both rests is left out, 2^-25 * 2^-12 of the other operand. That is below 2^15,
// so a sum is off by up to tiny * 2^-10, or tiny * 2^-20. Sums are recomputed unless that is 2^-14 or 2^-24
// of them, which is the same condition: |sum| >= tiny * 2^4. Of normally distributed numbers one in 10^8 is
// tiny, and such sums are about 2^24 * sqrt(positions).
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/weight_blocked_modes.cuh"

namespace tconv::cuda::sm90::weight_blocked {

// The largest finite magnitude among the elements of a channel that a thread looks at: its share of those
// from `first` to `end`, counted through all samples. Eight words are loaded before any is used, even where
// a thread has fewer: one by one, 25 MB take 20 us instead of 13, and 141 MB 70 instead of 44 (H200). Vector:
// words of a load; rows and bounds are multiples of it.
template <int Vector, class Word>
__device__ inline uint32_t most_of(const Sm90WeightLookOperand& o, const Word* from, uint32_t first,
                                   uint32_t end) {
  constexpr int kAtOnce = 8 / Vector, kStep = Vector * kSm90WeightPassThreads;
  uint32_t most = 0;
#pragma unroll 1
  for (uint32_t e = first + threadIdx.x * Vector; e < end; e += kAtOnce * kStep) {
    Words<Word, Vector> words[kAtOnce];
#pragma unroll
    for (int q = 0; q < kAtOnce; ++q) {
      const uint32_t at = e + q * kStep, n = o.by_length.divide(at);
      const auto i = static_cast<int>(at - n * static_cast<uint32_t>(o.length));
      words[q] = {};
      if (at < end) {
        words[q] = *reinterpret_cast<const Words<Word, Vector>*>(from + int64_t{n} * o.from_step[0] +
                                                                 int64_t{i} * o.position_step);
      }
    }
#pragma unroll
    for (int q = 0; q < kAtOnce; ++q) {
#pragma unroll
      for (int i = 0; i < Vector; ++i) most = max(most, finite_magnitude(words[q].v[i]));
    }
  }
  return most;
}

// The tiny numbers of `seen` are counted from zero on.
template <class Word>
__global__ void __launch_bounds__(kSm90WeightPassThreads)
    look_kernel(const __grid_constant__ Sm90WeightLookParams p) {
  wait_for_launch_before();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kThreads = kSm90WeightPassThreads;
  __shared__ uint32_t of_warps[kThreads / 32];
  const bool of_x = blockIdx.x < p.x.blocks;
  const Sm90WeightLookOperand& o = of_x ? p.x : p.y;
  const int block = static_cast<int>(of_x ? blockIdx.x : blockIdx.x - p.x.blocks);
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t i = int64_t{block} * kThreads + thread; i < o.rows; i += o.blocks * kThreads)
    o.seen.tiny[i] = 0;
  const int channel = block / o.shares, share = block - channel * o.shares;
  const Word* const from = static_cast<const Word*>(o.from) + channel * o.from_step[1];
  constexpr int kVector = 16 / sizeof(Word);
  const bool vectors = o.position_step == 1 && o.length % kVector == 0 && o.from_step[0] % kVector == 0 &&
                       reinterpret_cast<uintptr_t>(from) % 16 == 0;
  const int unit = vectors ? kVector : 1;
  const int64_t units = int64_t{p.samples} * o.length / unit;  // below 2^31
  const auto first = static_cast<uint32_t>(units * share / o.shares * unit),
             end = static_cast<uint32_t>(units * (share + 1) / o.shares * unit);
  uint32_t most = vectors ? most_of<kVector>(o, from, first, end) : most_of<1>(o, from, first, end);
  most = __reduce_max_sync(~0u, most);
  if (thread % 32 == 0) of_warps[thread / 32] = most;
  __syncthreads();
  if (thread >= 32) return;
  most = __reduce_max_sync(~0u, thread < kThreads / 32 ? of_warps[thread] : 0);
  if (thread == 0) o.seen.most[block] = most;
#endif
}

// The run of planes (WeightColumns) that a block of the pass is in: its first plane, the phases of a channel
// in it, and the first of them.
struct PlaneRun {
  int first = 0, phases, phase = 0;
  __device__ PlaneRun(const Sm90WeightPassOperand& o, int plane) : phases(o.first_planes) {
    if (plane < o.first_run) return;
    first = o.first_run, phases = o.planes - o.first_planes, phase = o.first_planes;
  }
};

// Scales what a thread of the pass has of 8 planes at some places. first: the thread's first unit of the row.
template <class Mode, int kPlaces>
__device__ inline void scale_planes(const Sm90WeightPassOperand& o, const PlaneRun& run, int64_t group,
                                    int row, int first, uint32_t (&words)[kPlaces][8]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  static_assert(kSm90WeightPassThreads == 8 * 32);
  __shared__ float ups[8];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int plane = row * 8 + warp, channel = (plane - run.first) / run.phases;
  uint32_t most = 0;
  if (channel < o.channels) {
    const uint32_t* const of_shares = o.seen.most + (group * o.channels + channel) * o.shares;
#pragma unroll 4
    for (int share = lane; share < o.shares; share += 32) most = max(most, of_shares[share]);
  }
  const int exponent = exponent_of(__reduce_max_sync(~0u, most));
  if (lane == 0) {
    ups[warp] = power_of_two(-exponent);
    if (first == warp * 32) o.seen.exponents[group * o.rows * 8 + plane] = exponent;
  }
  __syncthreads();
  uint32_t tiny = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float up = ups[i];
#pragma unroll
    for (int place = 0; place < kPlaces; ++place) {
      const float v = Mode::operand(__uint_as_float(words[place][i])) * up;
      if (words[place][i] * 2 != 0 && fabsf(v) < 0x1p-14f) ++tiny;
      words[place][i] = __float_as_uint(v);
    }
  }
  if (!__any_sync(~0u, tiny != 0)) return;
  tiny = __reduce_add_sync(~0u, tiny);
  if (lane == 0) atomicAdd(&o.seen.tiny[group * o.rows + row], tiny);
#endif
}

}  // namespace tconv::cuda::sm90::weight_blocked
