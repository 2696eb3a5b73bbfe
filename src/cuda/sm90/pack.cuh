// Packing of weights w[channel][cout][k] into the layouts that dense.hpp describes.
//
//   for each part of a row block, some of its couts:                                             one cluster
//     both layouts: for each channel of the block's share, cout, k:  least and most magnitude      one block
//                   the cluster's blocks tell each other what they saw, for the couts' scales
//     for each 8 channels of the block's share, tap, row:            8 weights into 16-byte units
//     the cluster's blocks tell each other whether they saw something that needs a mark
//
// Both passes read contiguous weights: for each channel the part's couts with all their taps are one run (in
// a strided product, whose channels change places, the taps of one cout are one), and the units of a tap for
// the part's rows are another. For float32 both layouts are written at once, the second pass reading from L1;
// or only the first layout, if the run that follows needs no other.
#pragma once

#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

inline constexpr uint32_t kNoWeight = 0xffffffffu;  // a least magnitude, less 1

// float32 has a second layout, scaled to float16.
template <class Mode>
inline constexpr bool kBothLayouts = std::is_same_v<typename Mode::T, float>;

// What each of the cluster's blocks saw.
struct Looked {
  uint32_t most[kSm90PackCluster][kSm90Rows];   // of a cout's finite magnitudes the largest, as bits
  uint32_t least[kSm90PackCluster][kSm90Rows];  // the least that is not zero, less 1; or kNoWeight
  // Whether a weight is not finite, or too much for the mode: one exchange after the other.
  uint32_t special[2][kSm90PackCluster];
};

// Which weights the block packs.
struct PackShare {
  int64_t row_block, group;    // row blocks of all groups are counted
  int part, rank;              // of the row block's parts, of the cluster's blocks
  bool last;                   // part
  int cout, couts;             // the group's couts [cout, cout + couts)
  int row, rows;               // of the row block
  int first_block, end_block;  // of 8 channels

  __device__ explicit PackShare(const Sm90PackParams& p) {
    const int place = blockIdx.x / p.cluster, block = place / p.parts;
    rank = blockIdx.x - place * p.cluster;
    part = place - block * p.parts;
    last = part == p.parts - 1;
    row_block = block;
    group = block / p.row_blocks;
    const int inner = part * p.part_couts, end = min(inner + p.part_couts, p.block_couts);
    cout = static_cast<int>(row_block - group * p.row_blocks) * p.block_couts + inner;
    couts = max(0, min(end - inner, p.cout_group - cout));
    row = inner * p.phases;
    rows = (last ? kSm90Rows : end * p.phases) - row;
    first_block = p.channel_blocks * rank / p.cluster;
    end_block = p.channel_blocks * (rank + 1) / p.cluster;
  }
};

// A thread keeps its place in the run of couts and taps, and so its cout, and walks along the channels with
// many loads under way. Returns whether some weight is not finite.
__device__ inline bool look(const Sm90PackParams& p, const PackShare& share, Looked& looked) {
  constexpr int kLoads = 16;
  uint32_t *all_most = looked.most[share.rank], *all_least = looked.least[share.rank];
  if (threadIdx.x < kSm90Rows) {
    all_most[threadIdx.x] = 0;
    all_least[threadIdx.x] = kNoWeight;
  }
  __syncthreads();
  const int run = share.couts * p.k;
  if (run == 0) return false;
  bool infinite = false;
  const int lines = max(1, kSm90PackThreads / run), line = static_cast<int>(threadIdx.x) / run;
  const int first = share.first_block * 8 + line, end = min(share.end_block * 8, p.cin_group);
  for (int i = threadIdx.x - line * run; i < run && line < lines; i += kSm90PackThreads) {
    const int inner = i / p.k, tap = i - inner * p.k;
    const uint32_t* weight = static_cast<const uint32_t*>(p.weight);
    uint32_t most = 0, least = kNoWeight;
    for (int channel = first; channel < end; channel += kLoads * lines) {
      uint32_t magnitude[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int at = channel + j * lines;
        const int64_t place = at < end ? p.steps.place(share.group, at, share.cout + inner, tap) : -1;
        magnitude[j] = place >= 0 ? __ldg(weight + place) & 0x7fffffffu : 0u;
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        infinite = infinite || magnitude[j] >= kInfBits;
        most = max(most, magnitude[j] < kInfBits ? magnitude[j] : 0u);
        least = min(least, magnitude[j] - 1u);
      }
    }
    atomicMax(&all_most[inner], most);
    atomicMin(&all_least[inner], least);
  }
  return infinite;
}

// Whether any block of the cluster says yes; all of them have begun. What they stored to each other has
// arrived then. Exchange: a different one for each call, as a block may begin one before another has read the
// one before.
template <int Exchange>
__device__ inline bool any_of_cluster(const Sm90PackParams& p, const PackShare& share, Looked& looked,
                                      bool mine) {
  uint32_t(&special)[kSm90PackCluster] = looked.special[Exchange];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < p.cluster) ptx::store_cluster4(ptx::shared_address(&special[share.rank]), thread, mine);
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
  return __syncthreads_or(thread < p.cluster && special[thread] != 0) != 0;
}

// A mark for the block's part; the last part also clears the marks after its own.
__device__ inline void mark(const PackShare& share, unsigned char* marks, bool marked) {
  const int thread = static_cast<int>(threadIdx.x);
  if (share.rank != 0 || thread < share.part || thread >= (share.last ? kSm90RowMarks : share.part + 1))
    return;
  marks[share.row_block * kSm90RowMarks + thread] = marked && thread == share.part;
}

// Tells the cluster's other blocks what this one saw.
__device__ inline void tell(const Sm90PackParams& p, const PackShare& share, Looked& looked) {
  for (int i = threadIdx.x; i < p.cluster * share.couts; i += kSm90PackThreads) {
    const int rank = i / share.couts, cout = i - rank * share.couts;
    if (rank == share.rank) continue;
    uint32_t *most = &looked.most[share.rank][cout], *least = &looked.least[share.rank][cout];
    ptx::store_cluster4(ptx::shared_address(most), rank, *most);
    ptx::store_cluster4(ptx::shared_address(least), rank, *least);
  }
}

// The scale of the thread's cout: it puts the largest finite magnitude into [2^13, 2^14). Returns whether a
// weight leaves float16's normal range.
__device__ inline bool set_scale(const Sm90PackParams& p, const PackShare& share, const Looked& looked,
                                 float* scales) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= share.couts) return false;
  uint32_t most = 0, least = kNoWeight;
  for (int rank = 0; rank < p.cluster; ++rank) {
    most = max(most, looked.most[rank][thread]);
    least = min(least, looked.least[rank][thread]);
  }
  const int exponent = scale_exponent(most);
  const float unscale = __uint_as_float(static_cast<uint32_t>(exponent - 13) << 23), scale = 1 / unscale;
  scales[thread] = scale;
  if (share.rank == 0) p.scales[share.group * p.cout_group + share.cout + thread] = unscale;
  return __uint_as_float(most) * scale > 0x1p15f ||
         (least != kNoWeight && __uint_as_float(least + 1u) * scale < 0x1p-14f);
}

template <class Mode>
__device__ inline bool special(const typename Mode::Word (&unit)[Mode::kUnit]) {
  bool infinite = false;
#pragma unroll
  for (int e = 0; e < Mode::kUnit; ++e) {
    const float v = widen(*reinterpret_cast<const typename Mode::T*>(&unit[e]));
    infinite = infinite || !(fabsf(v) <= 3.402823466e38f);
  }
  return infinite || Mode::special(unit);
}

// The units of 8 channels for a tap and row; scale: for float16. Returns whether one is special.
template <class Mode>
__device__ inline bool store_units(const Sm90PackParams& p, int64_t row_block, int block, int tap, int row,
                                   const typename Mode::Word (&v)[8], float scale) {
  constexpr int kUnits = 8 / Mode::kUnit, kBlockUnits = kSm90Blocks * kSm90Rows;
  bool any = false;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int unit = block * kUnits + u, slab = unit / kSm90Blocks;
    if (slab >= p.slabs) break;  // the other layout has longer slabs
    typename Mode::Word some[Mode::kUnit];
#pragma unroll
    for (int e = 0; e < Mode::kUnit; ++e) some[e] = v[u * Mode::kUnit + e];
    any = special<Mode>(some) || any;
    uint4 parts[Mode::kParts];
    Mode::weight(some, parts);
    uint4* to = static_cast<uint4*>(p.packed) +
                ((row_block * p.slabs + slab) * p.taps + tap) * Mode::kParts * kBlockUnits +
                unit % kSm90Blocks * kSm90Rows + row;
#pragma unroll
    for (int q = 0; q < Mode::kParts; ++q) to[q * kBlockUnits] = parts[q];
  }
  if constexpr (kBothLayouts<Mode>) {
    if (p.scaled == nullptr) return any;
    const int64_t slab = row_block * p.scaled_slabs + block / kSm90Blocks;
    uint4* to = static_cast<uint4*>(p.scaled) + (slab * p.taps + tap) * Mode::kParts * kBlockUnits +
                block % kSm90Blocks * kSm90Rows + row;
    const uint4 scaled = scaled_unit(v, scale);
    to[0] = scaled;
    if constexpr (Mode::kParts == 2) to[kBlockUnits] = rest_of_unit(v, scale, scaled);
  }
  return any;
}

// A thread keeps its row and walks along channels and taps. Returns whether some unit is special.
template <class Mode>
__device__ inline bool store_rows(const Sm90PackParams& p, const PackShare& share, const float* scales) {
  using Word = typename Mode::Word;
  constexpr bool kUnits = sizeof(Word) == 2;  // rows of 16-bit types may be turned
  const int lines = kSm90PackThreads / share.rows, line = static_cast<int>(threadIdx.x) / share.rows;
  const int row = share.row + threadIdx.x - line * share.rows, inner = row / p.phases;
  const int phase = row - inner * p.phases, cout = inner - share.part * p.part_couts;
  const bool there = cout < share.couts;
  const float scale = kBothLayouts<Mode> && p.scaled != nullptr && there ? scales[cout] : 1;
  const Word* weight = static_cast<const Word*>(p.weight);
  const int slots = (share.end_block - share.first_block) * p.taps;
  bool any = false;
#pragma unroll 2
  for (int slot = line < lines ? line : slots; slot < slots; slot += lines) {
    const int turn = slot / p.taps, tap = slot - turn * p.taps, block = share.first_block + turn;
    const int k = phase + tap * p.tap_stride;
    Word v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int channel = block * 8 + e;
      const bool one = there && k < p.k && channel < p.cin_group;
      const int64_t place = one ? p.steps.place<kUnits>(share.group, channel, share.cout + cout, k) : -1;
      v[e] = place >= 0 ? __ldg(weight + place) : Word(0);
    }
    any = store_units<Mode>(p, share.row_block, block, tap, row, v, scale) || any;
  }
  return any;
}

// For both layouts: the scales, and the marks of the scaled one, before anything is stored.
__device__ inline void prepare(const Sm90PackParams& p, const PackShare& share, Looked& looked,
                               float* scales) {
  const bool infinite = __syncthreads_or(look(p, share, looked)) != 0;
  ptx::cluster_wait();  // the other blocks have begun
  tell(p, share, looked);
  const bool any = any_of_cluster<0>(p, share, looked, infinite);
  const bool out = __syncthreads_or(set_scale(p, share, looked, scales)) != 0;
  mark(share, p.scaled_marks, any || out);
}

#endif

template <class Mode>
__global__ void __launch_bounds__(kSm90PackThreads) pack_kernel(const __grid_constant__ Sm90PackParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ Looked looked;
  __shared__ float scales[kSm90Rows];
  const PackShare share(p);
  ptx::cluster_arrive();
  const bool both = kBothLayouts<Mode> && p.scaled != nullptr;
  if constexpr (kBothLayouts<Mode>) {
    if (both) prepare(p, share, looked, scales);
  }
  const bool special = __syncthreads_or(store_rows<Mode>(p, share, scales)) != 0;
  if (!both) ptx::cluster_wait();  // the other blocks have begun
  mark(share, p.marks, any_of_cluster<1>(p, share, looked, special));
#endif
}

}  // namespace tconv::cuda::sm90
