// Float32 held in float16 by cuda.sm90.blocked: tf32 in one part, ieee in two, at twice the tensor cores'
// rate of tf32. A power of two for each group and sample of x (for each group, where samples are folded), as
// packed weights have one for each cout:
//
//   for scale, share of its elements:   most[scale][share] = the largest finite magnitude              look
//   for each unit of 8 channels:        exponent puts the scale's largest magnitude into [2^14, 2^15)  pass
//                                       parts of x * 2^-exponent;
//                                       tiny[scale][64 units] += numbers that are then below 2^-14, not zero
//   for each sum of a tile:             times 2^(both exponents), unless it may miss too much        writer
//
// One scale serves all operands of a sum, so that the product needs none, and 2^28 lie between the largest
// number and the least that float16 holds as well. The largest of all is known before the pass begins, so
// nothing but weights and tiny numbers can be off. A tiny number of x or of the weights puts a sum off by up
// to 2^-9, or 2^-19 in two parts (fp16_scale.cuh), so sums below tiny * Sm90TileMarks::least_sum are computed
// again, from x and weights as the caller has them (blocked_repair.cuh); and so are those that are infinite
// or NaN, since a zero that stands for no product, or the rest of an infinite number, makes NaN. Of normally
// distributed numbers one in 10^8 is tiny, and of the sums in whose columns it lies hardly any is small. How
// many of a cout's weights are tiny is not known: where one is, all count.
//
// Only tiny numbers that a tile reads count against its sums. So silence between loud passages makes no other
// tile slower. Where x spreads further than that throughout, the kernel is slow, but right.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/arithmetic.cuh"
#include "cuda/sm90/blocked.hpp"

namespace tconv::cuda::sm90 {

// The largest finite magnitude of a share of a scale's elements. Memory binds. Counters begin at zero.
template <Sm90LookWay kWay>
__device__ inline void look_at_share(const Sm90BlockedLookParams& p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kThreads = kSm90BlockingThreads, kWords = kWay == Sm90LookWay::vectors ? 4 : 1;
  __shared__ uint32_t of_warps[kThreads / 32];
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t i = int64_t{blockIdx.x} * kThreads + thread; i < p.tiny; i += int64_t{gridDim.x} * kThreads)
    p.seen.tiny[i] = 0;
  const int64_t scale = divide(blockIdx.x, p.seen.shares), group = divide(scale, p.row_samples);
  const int64_t share = blockIdx.x - scale * p.seen.shares;
  const int64_t span = p.channels * p.length, words = span * p.samples / kWords;
  const auto* const from = static_cast<const uint32_t*>(p.from) +
                           (scale - group * p.row_samples) * p.from_step[0] +
                           group * p.channels * p.from_step[1];
  const int64_t first = divide(words * share, p.seen.shares),
                end = divide(words * (share + 1), p.seen.shares);
  uint32_t most = 0;
#pragma unroll 4
  for (int64_t i = first + thread; i < end; i += kThreads) {
    const int64_t e = i * kWords, n = p.samples == 1 ? 0 : divide(e, span), rest = e - n * span;
    const uint32_t* at = from + n * p.from_step[0];
    if constexpr (kWay == Sm90LookWay::any) {
      const int64_t channel = divide(rest, p.length);
      at += channel * p.from_step[1] + (rest - channel * p.length) * p.from_step[2];
    } else {
      at += rest;
    }
    if constexpr (kWords == 4) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(at));
      most = max(max(most, max(finite_magnitude(v.x), finite_magnitude(v.y))),
                 max(finite_magnitude(v.z), finite_magnitude(v.w)));
    } else {
      most = max(most, finite_magnitude(__ldg(at)));
    }
  }
  most = __reduce_max_sync(~0u, most);
  if (thread % 32 == 0) of_warps[thread / 32] = most;
  __syncthreads();
  if (thread < 32) {
    most = __reduce_max_sync(~0u, thread < kThreads / 32 ? of_warps[thread] : 0);
    if (thread == 0) p.seen.most[blockIdx.x] = most;
  }
#endif
}

template <Sm90LookWay kWay>
__global__ void __launch_bounds__(kSm90BlockingThreads)
    blocked_look_kernel(const __grid_constant__ Sm90BlockedLookParams p) {
  wait_for_launch_before(p.order);
  look_at_share<kWay>(p);
  wait_for_launch_beside(p.order);
}

// For a lane of the pass: the exponent of its scale. Called by whole warps; `lanes`, a power of two from 8
// on, follow one another with the same scale.
__device__ inline int exponent_of_scale(const Sm90BlockedSeen& seen, int64_t scale, int lanes) {
  const int width = min(lanes, 32), lane = static_cast<int>(threadIdx.x) % width;
  uint32_t most = 0;
#pragma unroll 4
  for (int share = lane; share < seen.shares; share += width)
    most = max(most, seen.most[scale * seen.shares + share]);
  for (int apart = width / 2; apart > 0; apart /= 2) most = max(most, __shfl_xor_sync(~0u, most, apart));
  return exponent_of(most);
}

// How many of some numbers are tiny after scaling.
template <int Count>
__device__ inline uint32_t count_tiny(const uint32_t (&words)[Count], float up) {
  uint32_t tiny = 0;
#pragma unroll
  for (const uint32_t word : words)
    tiny += 2 * word != 0 && fabsf(__uint_as_float(word)) * up < 0x1p-14f ? 1 : 0;
  return tiny;
}

// Counts those of a warp's units, if there are any. unit: the lane's, of a row; lanes: as above.
__device__ inline void add_tiny(const Sm90BlockedSeen& seen, int64_t scale, int64_t unit, int lanes,
                                uint32_t tiny) {
  static_assert(kSm90TinyUnits % 32 == 0);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (!__any_sync(~0u, tiny != 0)) return;
  const bool together = lanes >= 32;  // all are of one piece
  if (together) tiny = __reduce_add_sync(~0u, tiny);
  if (tiny != 0 && (!together || threadIdx.x % 32 == 0))
    atomicAdd(&seen.tiny[scale * seen.pieces + unit / kSm90TinyUnits], tiny);
#endif
}

}  // namespace tconv::cuda::sm90
