// Units of packed weights, in one layout or, for float32, in both, and what their packing says of them: what
// the two ways of packing have in common (pack.cuh, pack_stream.cuh).
#pragma once

#include "cuda/sm90/look.cuh"

namespace tconv::cuda::sm90 {

// float32 has a second layout, scaled to float16.
template <class Mode>
inline constexpr bool kBothLayouts = std::is_same_v<typename Mode::T, float>;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

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
    if (p.packed != nullptr) store_plain(p, block, tap, v, seen);
    if constexpr (kBothLayouts<Mode>) {
      if (p.scaled != nullptr) store_scaled(p, block, tap, v, scale);
    }
  }

 private:
  static constexpr int kBlockUnits = kSm90Blocks * kSm90Rows;

  __device__ void store_plain(const Sm90PackParams& p, int block, int tap, const typename Mode::Word (&v)[8],
                              Extremes<Mode>& seen) const {
    constexpr int kUnits = 8 / Mode::kUnit;
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
#pragma unroll
      for (int q = 0; q < Mode::kParts; ++q) to[q * kBlockUnits] = parts[q];
    }
  }
  __device__ void store_scaled(const Sm90PackParams& p, int block, int tap, const typename Mode::Word (&v)[8],
                               float scale) const {
    uint4* to = scaled + int64_t{block / kSm90Blocks * p.taps + tap} * Mode::kParts * kBlockUnits +
                block % kSm90Blocks * kSm90Rows;
    const uint4 unit = scaled_unit(v, scale);
    to[0] = unit;
    if constexpr (Mode::kParts == 2) to[kBlockUnits] = rest_of_unit(v, scale, unit);
  }
};

// A block's mark of its row block; the last one also clears the marks after it.
__device__ inline void mark(int64_t row_block, int place, bool last, unsigned char* marks, bool marked) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < place || thread >= (last ? kSm90RowMarks : place + 1)) return;
  marks[row_block * kSm90RowMarks + thread] = marked && thread == place;
}

// Whether the launch has anything to do: the same in all blocks.
__device__ inline bool wanted(const Sm90PackParams& p) {
  if (p.only_if == nullptr) return true;
  int marked = 0;
  for (int i = threadIdx.x; i < p.marks_count; i += static_cast<int>(blockDim.x)) marked |= p.only_if[i];
  return __syncthreads_or(marked) != 0;
}

#endif

// How each way of packing begins.
__device__ inline void wait_to_pack(const Sm90PackParams& p) {
  wait_for_launch_before({.lets_begin = p.others_beside});
}

}  // namespace tconv::cuda::sm90
