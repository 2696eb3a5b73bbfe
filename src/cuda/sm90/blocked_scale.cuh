// Float32 held in float16 by cuda.sm90.blocked: tf32 in one part, ieee in two, at twice the tensor cores'
// rate of tf32. A power of two for each group and sample of x (for each group, where samples are folded), as
// packed weights have one for each cout:
//
//   for scale, share of its elements:   their extent: largest and smallest magnitude                   look
//   for each unit of 8 channels:        exponent puts the scale's largest magnitude into [2^14, 2^15)  pass
//                                       parts of x * 2^-exponent
//   for each unit of a wide scale:      tails: what parts leave of tiny numbers, times 2^39            pass
//   for each sum of a tile:             over parts; of a wide scale over tails too                     product
//                                       times 2^(both exponents), unless it may miss too much          writer
//
// One scale serves all operands of a sum, so that the product needs none, and 2^28 lie between the largest
// number and the least that float16 holds as well. Below that, under 2^-14 after scaling, a number is tiny.
// One of x or of the weights puts a sum off by up to 2^-9, or 2^-19 in two parts (fp16_scale.cuh).
//
// A scale with tiny numbers of x is wide: its tiles go over all slabs a second time, with tails instead of x.
// Sums are multiplied by 2^39 before the second round adds to them, and divided by it afterwards, both
// exactly. Then 2^67 lie between the largest number and the least. Smaller numbers are counted in
// lost[scale]; each puts a sum off by 2^39 times less than a tiny one would.
//
// Sums below (lost * 2^-39 + tiny) * Sm90TileMarks::least_sum are computed again, from x and weights as the
// caller has them (blocked_repair.cuh); and so are those that are infinite or NaN, since a zero that stands
// for no product, or the rest of an infinite number, makes NaN. How many of a cout's weights are tiny is not
// known: where one is, all count. To compute a sum again takes some 100 us of a warp, so this must be rare.
//
// Where x is large, the look is at a sample of it, since to read all of it takes as long as half of the pass.
// The exponent is then kSpare larger, and the pass, which sees every number, finds out the rest:
//
//   for each unit of 8 channels:  beyond[scale] = the largest finite magnitude not below 2^(15 + exponent)
//                                 tiny[scale][64 units] += tiny numbers; if they become kMany, it is wide
//   for each scale with such:     the unit again, its exponent from beyond[scale] if there is any, and
//                                 its tails                                                            again
//
// This last launch mostly finds nothing to do: of normally distributed numbers one in 10^7 is tiny, and of
// the sums of tiles with fewer than kMany hardly any is small. Only tiny numbers that a tile reads count
// against its sums.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/arithmetic.cuh"
#include "cuda/sm90/blocked.hpp"

namespace tconv::cuda::sm90 {

// A warp looks at one of every `every` parts of a share, of 32 words or vectors each: which one, in its
// `some`-th turn. It varies, so that rows whose length is a multiple of that are not always seen at the same
// positions.
__device__ inline int64_t picked(const Sm90BlockedSeen& seen, int64_t some) {
  const uint32_t mixed = static_cast<uint32_t>(some + blockIdx.x) * 0x9e3779b1u >> 16;
  return some * seen.every + (mixed & static_cast<uint32_t>(seen.every - 1));
}

// The largest finite magnitude of some numbers, and the smallest that is not 0, less 1: as unsigned numbers,
// so that 0 becomes the largest of all and never counts.
struct Extent {
  uint32_t most = 0, below = ~0u;

  __device__ void add(uint32_t word) {
    const uint32_t magnitude = finite_magnitude(word);
    most = max(most, magnitude), below = min(below, magnitude - 1);
  }
  __device__ void join_warp() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    most = __reduce_max_sync(~0u, most), below = __reduce_min_sync(~0u, below);
#endif
  }
};

// The extent of a share of a scale's elements, or of a sample of them. Memory binds. Counters begin at zero.
template <Sm90LookWay kWay>
__device__ inline void look_at_share(const Sm90BlockedLookParams& p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kThreads = kSm90BlockingThreads, kWords = kWay == Sm90LookWay::vectors ? 4 : 1;
  __shared__ Extent of_warps[kThreads / 32];
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t i = int64_t{blockIdx.x} * kThreads + thread; i < p.zeros; i += int64_t{gridDim.x} * kThreads)
    p.seen.tiny[i] = 0;
  const int64_t scale = divide(blockIdx.x, p.seen.shares), group = divide(scale, p.row_samples);
  const int64_t share = blockIdx.x - scale * p.seen.shares;
  const int64_t span = p.channels * p.length, words = span * p.samples / kWords;
  const auto* const from = static_cast<const uint32_t*>(p.from) +
                           (scale - group * p.row_samples) * p.from_step[0] +
                           group * p.channels * p.from_step[1];
  const int64_t first = divide(words * share, p.seen.shares),
                end = divide(words * (share + 1), p.seen.shares);
  Extent seen;
#pragma unroll 4
  for (int64_t some = thread / 32; first + some * p.seen.every * 32 < end; some += kThreads / 32) {
    const int64_t i = first + picked(p.seen, some) * 32 + thread % 32;
    if (i >= end) continue;
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
      seen.add(v.x), seen.add(v.y), seen.add(v.z), seen.add(v.w);
    } else {
      seen.add(__ldg(at));
    }
  }
  seen.join_warp();
  if (thread % 32 == 0) of_warps[thread / 32] = seen;
  __syncthreads();
  if (thread < 32) {
    seen = thread < kThreads / 32 ? of_warps[thread] : Extent();
    seen.join_warp();
    if (thread == 0) p.seen.most[blockIdx.x] = seen.most, p.seen.below[blockIdx.x] = seen.below;
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

// How much larger the exponent is than the largest number of a sample needs, for the sake of those that are
// not in it; and the exponent if all of a sample are zero.
inline constexpr int kSpare = 2, kLeastExponent = -126;
inline constexpr float kTiny = 0x1p-14f;  // what is smaller is no normal number of float16
inline constexpr uint32_t kMany = 16;     // tiny numbers of a piece

// What a lane of the pass knows of its scale.
struct ScaleOfRow {
  int exponent;
  bool tails;  // are to be stored
};

// Called by whole warps; `lanes`, a power of two from 8 on, follow one another with the same scale. Where the
// look has seen everything, the scale is wide if any of its numbers is tiny.
__device__ inline ScaleOfRow scale_of_row(const Sm90BlockedSeen& seen, int64_t scale, int lanes) {
  const int width = min(lanes, 32), lane = static_cast<int>(threadIdx.x) % width;
  uint32_t most = 0, below = ~0u;
#pragma unroll 4
  for (int share = lane; share < seen.shares; share += width) {
    most = max(most, seen.most[scale * seen.shares + share]);
    if (seen.every == 1) below = min(below, seen.below[scale * seen.shares + share]);
  }
  for (int apart = width / 2; apart > 0; apart /= 2) {
    most = max(most, __shfl_xor_sync(~0u, most, apart));
    below = min(below, __shfl_xor_sync(~0u, below, apart));
  }
  if (seen.every > 1) return {most == 0 ? kLeastExponent : exponent_of(most) + kSpare, false};
  const int exponent = exponent_of(most);
  return {exponent, below != ~0u && __uint_as_float(below + 1) * power_of_two(-exponent) < kTiny};
}

// The same for the pass that stands by.
__device__ inline ScaleOfRow scale_again(const Sm90BlockedSeen& seen, int64_t scale) {
  const uint32_t beyond = seen.beyond[scale];
  return {beyond != 0 ? exponent_of(beyond) : seen.exponents[scale], true};
}

// The largest magnitude of some numbers, infinite ones and NaN or not among them.
template <bool Finite, int Positions, int Count>
__device__ inline uint32_t largest(const uint32_t (&words)[Positions][Count]) {
  uint32_t most = 0;
#pragma unroll
  for (const auto& of_position : words) {
#pragma unroll
    for (const uint32_t word : of_position)
      most = max(most, Finite ? finite_magnitude(word) : word & 0x7fffffffu);
  }
  return most;
}

// For a lane of the pass behind a look at a sample: tells the pass that stands by of numbers that the
// exponent is too small for. Two instructions a number find that there is none.
template <int Positions, int Count>
__device__ inline void tell_beyond(const Sm90BlockedSeen& seen, int64_t scale,
                                   const uint32_t (&words)[Positions][Count], int exponent) {
  const auto beyond = [exponent](uint32_t most) { return most != 0 && exponent_of(most) > exponent; };
  if (!beyond(largest<false>(words))) return;
  const uint32_t most = largest<true>(words);
  if (!beyond(most)) return;
  atomicMax(&seen.beyond[scale], most);
  *seen.any = 1;
}

// How many of some numbers are below a limit after scaling, but not zero.
template <int Count>
__device__ inline uint32_t count_below(const uint32_t (&words)[Count], float up, float limit) {
  uint32_t below = 0;
#pragma unroll
  for (const uint32_t word : words)
    below += 2 * word != 0 && fabsf(__uint_as_float(word)) * up < limit ? 1 : 0;
  return below;
}

// Behind a look at a sample: counts the tiny numbers of a warp's units, if there are any; kMany of a piece
// make a scale wide. unit: the lane's, of a row; lanes: as above.
__device__ inline void add_tiny(const Sm90BlockedSeen& seen, int64_t scale, int64_t unit, int lanes,
                                uint32_t tiny) {
  static_assert(kSm90TinyUnits % 32 == 0);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (!__any_sync(~0u, tiny != 0)) return;
  const bool together = lanes >= 32;  // all are of one piece
  if (together) tiny = __reduce_add_sync(~0u, tiny);
  if (tiny == 0 || (together && threadIdx.x % 32 != 0)) return;
  const uint32_t before = atomicAdd(&seen.tiny[scale * seen.pieces + unit / kSm90TinyUnits], tiny);
  if (before + tiny >= kMany) seen.wide[scale] = *seen.any = 1;
#endif
}

// Stores a unit's parts and tails. In two parts, tiny numbers have no second one: its product with that of
// the weights is left out.
template <class Mode>
__device__ inline void store_with_tails(const Sm90BlockedSeen& seen, int64_t scale,
                                        const uint32_t (&words)[8], float up, uint4* to, int64_t part_units) {
  uint32_t larger[8], tails[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float v = __uint_as_float(words[i]) * up, tail = v - __half2float(__float2half_rn(v));
    const bool tiny = fabsf(v) < kTiny;
    larger[i] = tiny ? 0 : words[i], tails[i] = tiny ? __float_as_uint(tail * kTailUp) : 0;
  }
  to[0] = scaled_unit(words, up);
  const uint4 unit = scaled_unit(tails, 1);
  to[Mode::kParts * part_units] = unit;
  if constexpr (Mode::kParts == 2) {
    to[part_units] = rest_of_unit(larger, up, scaled_unit(larger, up));
    to[3 * part_units] = rest_of_unit(tails, 1, unit);
  }
  const uint32_t lost = count_below(words, up, kTiny * kTailDown);
  if (lost != 0) atomicAdd(&seen.lost[scale], lost);
}

}  // namespace tconv::cuda::sm90
