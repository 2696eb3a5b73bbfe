// What the scales of float32 weights held in float16 depend on: the magnitudes of each cout's weights.
//
//   for each tile of couts, share of the channels:                                     one block
//     for each channel of the share and weight of a cout:  its largest, its least magnitude
//     looked[cout][share] = both
//
// A launch of its own, before that which packs: a cout's weights are spread over many blocks of that one. (It
// can be done there by clusters, which exchange what they saw: that took up to four times as long, since
// blocks then load, look, wait for each other and store one after the other, and at most 8 share a cout.)
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

inline constexpr uint32_t kNoWeight = 0xffffffffu;  // a least magnitude, less 1

// What a thread saw of a cout's weights.
struct SeenOfCout {
  uint32_t most = 0, least = kNoWeight;
  bool infinite = false;

  __device__ void add(uint32_t bits) {
    const uint32_t magnitude = bits & 0x7fffffffu;
    infinite = infinite || magnitude >= kInfBits;
    most = max(most, finite_magnitude(bits));
    least = min(least, magnitude - 1u);
  }
};

// Of `count` weights, `step` elements apart.
__device__ inline void look_at(const uint32_t* weight, int64_t step, int count, SeenOfCout& seen) {
#pragma unroll 8
  for (int i = 0; i < count; ++i) seen.add(__ldg(weight + i * step));
}

// The scales of the couts of a row block, for all threads of the block. Whether one of them has weights that
// float16 cannot hold. A scale puts the largest finite magnitude as far up as float16 reaches, so that
// small weights stay in its normal range: of 67 million normally distributed weights one or two would leave
// it if the largest lay in [2^13, 2^14), and with them 64 rows each, which a second launch would compute.
// first: the thread that also stores the scales for the main kernel is one of this block's.
__device__ inline bool set_scales(const Sm90PackParams& p, int64_t group, int cout, int couts, bool first,
                                  float* scales) {
  __shared__ uint32_t most[kSm90Rows], least[kSm90Rows];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (thread < kSm90Rows) most[thread] = 0, least[thread] = kNoWeight;
  __syncthreads();
  const Sm90Looked* looked = p.looked + (group * p.cout_group + cout) * p.shares;
  bool special = false;
  for (int i = thread; i < couts * p.shares; i += threads) {
    const Sm90Looked some = looked[i];
    const int inner = static_cast<int>(p.shares_div.divide(i));
    special = special || some.most >= kSm90NotFinite;
    atomicMax(&most[inner], some.most & ~kSm90NotFinite);
    atomicMin(&least[inner], some.least);
  }
  __syncthreads();
  if (thread < couts) {
    constexpr float kMost = 65504;
    constexpr uint32_t kMostMantissa = 0x7fe000;  // of kMost
    const uint32_t bits = most[thread];
    const int up = (bits & 0x7fffffu) <= kMostMantissa ? 15 : 14;
    const int exponent = scale_exponent(bits) - up;
    const float unscale = __uint_as_float(static_cast<uint32_t>(exponent) << 23), scale = 1 / unscale;
    scales[thread] = scale;
    if (first) p.scales[group * p.cout_group + cout + thread] = unscale;
    special = special || __uint_as_float(bits) * scale > kMost ||
              (least[thread] != kNoWeight && __uint_as_float(least[thread] + 1u) * scale < 0x1p-14f);
  }
  return __syncthreads_or(special) != 0;
}

#endif

// A template, so that only sources that use it have it.
template <class Word>
__global__ void __launch_bounds__(kSm90PackThreads) look_kernel(const __grid_constant__ Sm90LookParams p) {
  wait_for_launch_before({.lets_begin = true});
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  static_assert(sizeof(Word) == 4);
  __shared__ uint32_t most[kSm90PackThreads], least[kSm90PackThreads], infinite[kSm90PackThreads];
  const int thread = static_cast<int>(threadIdx.x);
  most[thread] = infinite[thread] = 0, least[thread] = kNoWeight;
  const int place = static_cast<int>(blockIdx.x) / p.shares,
            share = static_cast<int>(blockIdx.x) - place * p.shares;
  const int group = place / p.tiles, cout = (place - group * p.tiles) * p.tile_couts;
  const int couts = min(p.tile_couts, p.cout_group - cout), channel = share * p.share_channels;
  const int channels = min(p.share_channels, p.channels - channel);
  const Word* weight = static_cast<const Word*>(p.weight) + group * p.steps.group + channel * p.steps.cin +
                       cout * p.steps.cout;
  __syncthreads();
  auto tell = [&](int inner, const SeenOfCout& seen) {
    atomicMax(&most[inner], seen.most);
    atomicMin(&least[inner], seen.least);
    if (seen.infinite) infinite[inner] = kSm90NotFinite;
  };
  if (p.by_channel) {
    // A thread keeps its place in the lines of channels, and so its cout.
    const int length = couts * p.steps.k, turns = max(1, kSm90PackThreads / length), turn = thread / length;
    for (int i = thread - turn * length; turn < turns && i < length; i += kSm90PackThreads) {
      SeenOfCout seen;
      look_at(weight + turn * p.steps.cin + i, turns * p.steps.cin, (channels - turn + turns - 1) / turns,
              seen);
      tell(i / p.steps.k, seen);
    }
  } else if (const int warp = thread / 32, lane = thread % 32; warp < couts) {
    SeenOfCout seen;  // a warp has a cout's line
    look_at(weight + warp * p.steps.cout + lane, 32, (channels * p.steps.k - lane + 31) / 32, seen);
    tell(warp, seen);
  }
  __syncthreads();
  if (thread >= couts) return;
  p.looked[(int64_t{group} * p.cout_group + cout + thread) * p.shares + share] = {
      most[thread] | infinite[thread], least[thread]};
#endif
}

}  // namespace tconv::cuda::sm90
