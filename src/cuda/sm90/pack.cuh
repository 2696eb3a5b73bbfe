// Packing of weights w[channel][cout][k] into the layouts that dense.hpp describes.
//
//   for each part of a row block, some of its couts:                                        some blocks
//     both layouts: for each stage of the block's share of channels:                           one block
//                     for each weight: least and most magnitude of its cout
//                   the part's blocks tell each other what they saw, for the couts' scales
//     for each stage, 8 rows, 4 pairs of 8 channels and a tap:      one warp, 8 weights of a lane to units
//     the part's blocks tell each other whether they saw something that needs a mark, if marks are few
//
// A part's blocks are a cluster if they have something to tell. If there is one layout and no more than 8
// blocks for a row block, each has a mark of its own.
//
// Stages come through shared memory, two of them under way (pack_stage.cuh). For float32 both layouts are
// written at once, the second pass reading its stages again, from L2, where they were too many to be kept; or
// only one, if the run that follows needs no other: the scaled one, and after the main kernel the plain one,
// if that marked a tile. 8 rows are 128 bytes of a packed tap.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/pack_stage.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// float32 has a second layout, scaled to float16.
template <class Mode>
inline constexpr bool kBothLayouts = std::is_same_v<typename Mode::T, float>;

// Of magnitudes as bits: the largest, and the least that is not zero, less 1. 16-bit types: the largest of
// each half of words.
template <class Mode>
struct Extremes {
  static constexpr bool kPairs = sizeof(typename Mode::Word) == 2;
  uint32_t most = 0, least = kNoWeight;

  __device__ void add(uint32_t bits) {
    const uint32_t magnitude = bits & (kPairs ? 0x7fff7fffu : 0x7fffffffu);
    most = kPairs ? __vmaxu2(most, magnitude) : max(most, magnitude);
    if constexpr (!kPairs) least = min(least, magnitude - 1u);
  }
  // Whether some weight is not finite, or too small for the mode's parts.
  __device__ bool special() const {
    if constexpr (std::is_same_v<Mode, F16>) return __vmaxu2(most, 0x7bff7bffu) != 0x7bff7bffu;
    if constexpr (std::is_same_v<Mode, Bf16>) return __vmaxu2(most, 0x7f7f7f7fu) != 0x7f7f7f7fu;
    return most >= kInfBits || (Mode::kParts == 2 && too_small_to_split(least + 1u));
  }
};

// What a thread saw of a cout's float32 weights.
struct SeenOfCout {
  uint32_t most = 0, least = kNoWeight;
  bool infinite = false;

  __device__ void add(uint32_t bits) {
    const uint32_t magnitude = bits & 0x7fffffffu;
    infinite = infinite || magnitude >= kInfBits;
    most = max(most, finite_magnitude(bits));
    least = min(least, magnitude - 1u);
  }
  __device__ void tell(Looked& looked, int rank, int cout) const {
    atomicMax(&looked.most[rank][cout], most);
    atomicMin(&looked.least[rank][cout], least);
  }
};

// A warp for each line that is a cout's; otherwise a thread keeps its place in the line, and so its cout, and
// walks along the channels. Returns whether some weight is not finite.
__device__ inline bool look(const PackStages<uint32_t>& stages, const PackStages<uint32_t>::Stage& s,
                            Looked& looked) {
  const Sm90PackParams& p = stages.p;
  auto begin_of = [&](int line) {
    return stages.shared + s.buffer + line * p.stage.pitch + stages.lead(s, line);
  };
  auto at = [](const unsigned char* begin, int i) {
    return *reinterpret_cast<const uint32_t*>(begin + 4 * i);
  };
  bool infinite = false;
  const int rank = stages.share.rank, thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  if (p.stage.by_channel) {
    const int groups = max(1, kSm90PackThreads / max(1, s.length)), group = thread / max(1, s.length);
    for (int i = thread - group * s.length; group < groups && i < s.length; i += kSm90PackThreads) {
      SeenOfCout seen;
      for (int line = group; line < s.lines; line += groups) seen.add(at(begin_of(line), i));
      seen.tell(looked, rank, s.cout + i / p.steps.k);
      infinite = infinite || seen.infinite;
    }
    return infinite;
  }
  for (int line = thread / 32; line < s.lines; line += kSm90PackThreads / 32) {
    SeenOfCout seen;
    const unsigned char* begin = begin_of(line);
    for (int i = lane; i < s.length; i += 32) seen.add(at(begin, i));
    infinite = infinite || seen.infinite;
    seen.most = __reduce_max_sync(0xffffffffu, seen.most);
    seen.least = __reduce_min_sync(0xffffffffu, seen.least);
    if (lane == 0) seen.tell(looked, rank, s.cout + line);
  }
  return infinite;
}

// The same where there are no stages.
__device__ inline bool look_directly(const PackStages<uint32_t>& stages, Looked& looked) {
  const Sm90PackParams& p = stages.p;
  const PackShare& share = stages.share;
  bool infinite = false;
  for (int cout = 0; cout < share.couts; ++cout) {
    SeenOfCout seen;
    for (int channel = share.first_block * 8; channel < min(share.end_block * 8, p.cin_group); ++channel) {
      for (int tap = threadIdx.x; tap < p.k; tap += kSm90PackThreads) {
        const int64_t place = p.steps.place(share.group, channel, share.cout + cout, tap);
        if (place >= 0) seen.add(__ldg(static_cast<const uint32_t*>(p.weight) + place));
      }
    }
    seen.tell(looked, share.rank, cout);
    infinite = infinite || seen.infinite;
  }
  return infinite;
}

// The scale of the thread's cout: it puts the largest finite magnitude as far up as float16 reaches, so that
// small weights stay in its normal range: of 67 million normally distributed weights one or two would leave
// it if the largest lay in [2^13, 2^14), and with them 64 rows each, which a second launch would compute.
// Returns whether a weight leaves that range.
__device__ inline bool set_scale(const Sm90PackParams& p, const PackShare& share, const Looked& looked,
                                 float* scales) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= share.couts) return false;
  uint32_t most = 0, least = kNoWeight;
  for (int rank = 0; rank < p.ranks; ++rank) {
    most = max(most, looked.most[rank][thread]);
    least = min(least, looked.least[rank][thread]);
  }
  constexpr float kMost = 65504;
  constexpr uint32_t kMostMantissa = 0x7fe000;  // of kMost
  const int up = (most & 0x7fffffu) <= kMostMantissa ? 15 : 14;
  const int exponent = scale_exponent(most) - up;
  const float unscale = __uint_as_float(static_cast<uint32_t>(exponent) << 23), scale = 1 / unscale;
  scales[thread] = scale;
  if (share.rank == 0) p.scales[share.group * p.cout_group + share.cout + thread] = unscale;
  return __uint_as_float(most) * scale > kMost ||
         (least != kNoWeight && __uint_as_float(least + 1u) * scale < 0x1p-14f);
}

// For both layouts, when the first pass has been over all stages: the scales, and the marks of the scaled
// one.
__device__ inline void set_scales(const Sm90PackParams& p, const PackShare& share, bool infinite,
                                  Looked& looked, float* scales) {
  infinite = __syncthreads_or(infinite) != 0;
  if (p.cluster) ptx::cluster_wait();  // the other blocks have begun
  if (p.cluster) tell(p, share, looked);
  const bool any = any_of_cluster<0>(p, share, looked, infinite);
  const bool out = __syncthreads_or(set_scale(p, share, looked, scales)) != 0;
  mark(p, share, p.scaled_marks, any || out);
}

// Where a row's units go.
template <class Mode>
struct PackedRow {
  uint4 *packed, *scaled;

  __device__ PackedRow(const Sm90PackParams& p, int64_t row_block, int row) {
    const int64_t tap_units = int64_t{Mode::kParts} * kSm90Blocks * kSm90Rows;
    packed = static_cast<uint4*>(p.packed) + row_block * p.slabs * p.taps * tap_units + row;
    scaled = static_cast<uint4*>(p.scaled) + row_block * p.scaled_slabs * p.taps * tap_units + row;
  }

  // The units of 8 channels for a tap; scale: for float16.
  __device__ void store(const Sm90PackParams& p, int block, int tap, const typename Mode::Word (&v)[8],
                        float scale, Extremes<Mode>& seen) const {
    constexpr int kUnits = 8 / Mode::kUnit, kBlockUnits = kSm90Blocks * kSm90Rows;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int unit = block * kUnits + u, slab = unit / kSm90Blocks;
      if (slab >= p.slabs) break;  // the other layout has longer slabs
      typename Mode::Word some[Mode::kUnit];
#pragma unroll
      for (int e = 0; e < Mode::kUnit; ++e) some[e] = v[u * Mode::kUnit + e];
      const uint4 bits = unit_of(some);
      seen.add(bits.x), seen.add(bits.y), seen.add(bits.z), seen.add(bits.w);
      uint4 parts[Mode::kParts];
      Mode::weight(some, parts);
      uint4* to =
          packed + int64_t{slab * p.taps + tap} * Mode::kParts * kBlockUnits + unit % kSm90Blocks * kSm90Rows;
      if (p.packed == nullptr) continue;
#pragma unroll
      for (int q = 0; q < Mode::kParts; ++q) to[q * kBlockUnits] = parts[q];
    }
    if constexpr (kBothLayouts<Mode>) {
      if (p.scaled == nullptr) return;
      uint4* to = scaled + int64_t{block / kSm90Blocks * p.taps + tap} * Mode::kParts * kBlockUnits +
                  block % kSm90Blocks * kSm90Rows;
      const uint4 unit = scaled_unit(v, scale);
      to[0] = unit;
      if constexpr (Mode::kParts == 2) to[kBlockUnits] = rest_of_unit(v, scale, unit);
    }
  }
};

// 8 rows by 4 pairs of channel block and tap for each warp, or fewer rows by more pairs. zeros: the shared
// address of a weight of 0.
template <class Mode>
__device__ inline void store_stage(const PackStages<typename Mode::Word>& stages,
                                   const typename PackStages<typename Mode::Word>::Stage& s,
                                   const uint32_t* table, uint32_t zeros, const float* scales,
                                   Extremes<Mode>& seen) {
  const Sm90PackParams& p = stages.p;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_rows = 1 << p.stage.log_warp_rows, warp_pairs = 32 >> p.stage.log_warp_rows;
  const int pairs = (s.end_block - s.first_block) * p.taps;
  const int turns = (pairs + warp_pairs - 1) >> (5 - p.stage.log_warp_rows);
  const uint32_t table_end = stages.table_end(s);
  int turn = warp;
#pragma unroll 1
  for (int first = 0; first < s.rows; first += warp_rows) {
    if (turn >= turns) {
      turn -= turns;
      continue;
    }
    const int row = first + (lane & (warp_rows - 1)), cout = static_cast<int>(p.phases_div.divide(row));
    const int phase = stages.share.first_phase + row - cout * p.phases;
    const bool there = row < s.rows && cout < s.couts && phase < p.phases;
    const uint32_t cout_address = there ? stages.cout_address(s, cout) : 0;
    const float scale = kBothLayouts<Mode> && p.scaled != nullptr && there ? scales[s.cout + cout] : 1;
    const PackedRow<Mode> to(p, stages.share.row_block, stages.share.row + s.row + row);
#pragma unroll 1
    for (; turn < turns; turn += kSm90PackThreads / 32) {
      const int pair = turn * warp_pairs + (lane >> p.stage.log_warp_rows);
      if (row >= s.rows || pair >= pairs) continue;
      const int turned = static_cast<int>(p.taps_div.divide(pair)), tap = pair - turned * p.taps;
      const int block = s.first_block + turned, k = phase + tap * p.tap_stride;
      const bool some = there && k < p.k;
      typename Mode::Word v[8] = {};
      if (!p.stage.direct) {
        stages.take(s, table, some ? table_end : 0, cout_address, block, k, zeros, v);
      } else if (some) {
        stages.take_directly(block, s.cout + cout, k, v);
      }
      to.store(p, block, tap, v, scale, seen);
    }
    turn -= turns;
  }
}

// Whether the launch has anything to do: the same in all blocks.
__device__ inline bool wanted(const Sm90PackParams& p) {
  if (p.only_if == nullptr) return true;
  int marked = 0;
  for (int i = threadIdx.x; i < p.marks_count; i += kSm90PackThreads) marked |= p.only_if[i];
  return __syncthreads_or(marked) != 0;
}

#endif

template <class Mode>
__global__ void __launch_bounds__(kSm90PackThreads, 3) pack_kernel(const __grid_constant__ Sm90PackParams p) {
  wait_for_launch_before();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Looked looked;
  __shared__ float scales[kSm90Rows];
  __shared__ uint32_t zero;
  if (!wanted(p)) return;
  const PackShare share(p);
  if (p.cluster) ptx::cluster_begin();
  const PackStages<typename Mode::Word> stages(p, share, shared);
  uint32_t* table = reinterpret_cast<uint32_t*>(shared + kSm90PackBuffers * p.stage.bytes);
  const bool both = kBothLayouts<Mode> && p.scaled != nullptr;
  const int turns = stages.count * (both ? 2 : 1);
  const int copies = p.stage.direct ? 0 : stages.kept() ? stages.count : turns;
  if (threadIdx.x == 0) zero = 0;
  if (both && threadIdx.x < kSm90Rows) {
    looked.most[share.rank][threadIdx.x] = 0;
    looked.least[share.rank][threadIdx.x] = kNoWeight;
  }
  bool infinite = false;
  int table_part = -1;
  Extremes<Mode> seen;
#pragma unroll 1
  for (int turn = -2; turn < turns; ++turn) {
    if (turn >= 0) {
      ptx::copy_async_wait<1>();
      __syncthreads();
    }
    if (turn + 2 < copies) stages.copy(stages.stage(turn + 2));
    ptx::copy_async_commit();
    if (turn < 0) continue;
    const auto stage = stages.stage(turn);
    if constexpr (kBothLayouts<Mode>) {
      if (both && turn == stages.count) set_scales(p, share, infinite, looked, scales);
      if (both && turn < stages.count) {
        infinite = (p.stage.direct ? look_directly(stages, looked) : look(stages, stage, looked)) || infinite;
        continue;
      }
    }
    if (!p.stage.direct && table_part != (p.stage.by_channel ? stage.part : 0)) {
      table_part = p.stage.by_channel ? stage.part : 0;
      stages.make_table(stage, table);
      __syncthreads();
    }
    store_stage<Mode>(stages, stage, table, ptx::shared_address(&zero), scales, seen);
  }
  if (p.packed == nullptr) return;
  const bool special = __syncthreads_or(seen.special()) != 0;
  if (p.cluster && !both) ptx::cluster_wait();  // the other blocks have begun
  mark(p, share, p.marks, any_of_cluster<1>(p, share, looked, special));
#endif
}

}  // namespace tconv::cuda::sm90
