// What comes into shared memory for cuda.sm80.thin (thin.hpp): windows of the source as words, weights as
// fragments of mma, and where in a window each word of the depth lies.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/sm80/tf32_words.cuh"
#include "cuda/sm80/thin.hpp"
#include "cuda/sm80/thin_copy.cuh"

namespace tconv::cuda::sm80::thin {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// What a block works on.
struct Place {
  int group, first_row_tile, row_tiles;
  int first_tile, end_tile;

  __device__ explicit Place(const ThinParams& p) {
    const auto rest = static_cast<int>(p.walkers.divide(blockIdx.x));
    const int walkers = static_cast<int>(p.walkers.value),
              walker = static_cast<int>(blockIdx.x) - rest * walkers;
    group = static_cast<int>(p.row_blocks.divide(rest));
    first_row_tile = (rest - group * static_cast<int>(p.row_blocks.value)) * p.block_row_tiles;
    row_tiles = min(p.block_row_tiles, (p.rows + kThinRowTile - 1) / kThinRowTile - first_row_tile);
    first_tile = static_cast<int>(int64_t{p.tiles} * walker / walkers);
    end_tile = static_cast<int>(int64_t{p.tiles} * (walker + 1) / walkers);
  }
};

// The channel and phase of row v of a row tile; mma's row v % 2 * 8 + v / 2, so that a lane has two
// neighbouring ones.
struct Row {
  int channel, phase;

  __device__ Row(const ThinParams& p, int row_tile, int v) {
    const int row = row_tile * kThinRowTile + v;
    channel = row >> p.phase_bits, phase = row & ((1 << p.phase_bits) - 1);
  }
  __device__ bool there(const ThinParams& p) const {
    return channel < p.output_channels && phase < p.out_stride;
  }
};

// Of a word of the depth.
struct Term {
  int tap, pair;

  __device__ Term(const ThinParams& p, int word) {
    tap = static_cast<int>(p.pairs_div.divide(word));
    pair = word - tap * p.pairs;
  }
};

// [step][lane % 4]: where the two words of B that a lane holds lie in a window, in bytes. Words that the
// depth lacks may be any.
__device__ inline void fill_table(const ThinParams& p, int* table) {
  for (int i = threadIdx.x; i < (p.steps + kThinStepsAhead) * kThinStepWords; i += kThinThreads) {
    const int step = i / kThinStepWords, r = i % kThinStepWords;
    const Term term(p, step * kThinStepWords + r / 2 + r % 2 * 4);
    const int ahead = term.tap * p.dilation, at = static_cast<int>(p.in_stride_div.divide(ahead));
    const int plane = ahead - at * p.in_stride;
    table[i] = term.tap < p.taps ? (term.pair * p.pair_pitch + plane * p.plane_pitch + at) * 4 : 0;
  }
}

// A word of weights: of two channels in 16-bit types, of which the second may not exist; of float32 one,
// rounded or split.
template <class A>
__device__ __forceinline__ void weight_word(const ThinParams& p, const typename A::T* from, int channel,
                                            uint32_t (&parts)[A::kParts]) {
  parts[0] = bits_at(from);
  if constexpr (sizeof(typename A::T) == 2) {
    if (channel + 1 < p.channels) parts[0] |= bits_at(from + p.weight_channel) << 16;
  } else if constexpr (A::kParts == 2) {
    split_word(parts[0], parts[0], parts[1]);
  } else {
    parts[0] = to_tf32(parts[0]);
  }
}

// [row tile][step][part][lane], as a lane's fragment of A: rows 2*(lane/4) and the next, of words lane%4 and
// lane%4 + 4.
template <class A>
__device__ inline void fill_weights(const ThinParams& p, const Place& place, uint4* fragments) {
  using T = typename A::T;
  constexpr int kChannels = 4 / sizeof(T);  // of a word
  const int lane = threadIdx.x % 32, all = place.row_tiles * p.steps;
  const T* const weight = static_cast<const T*>(p.weight) + place.group * p.weight_group;
  int tile = 0, step = threadIdx.x / 32;
  for (int i = step; i < all; i += kThinWarps, step += kThinWarps) {
    for (; step >= p.steps; step -= p.steps) ++tile;
    uint32_t words[A::kParts][4] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const Term term(p, step * kThinStepWords + lane % 4 + r / 2 * 4);
      const Row row(p, place.first_row_tile + tile, lane / 4 * 2 + r % 2);
      const int k = p.tap_first + p.tap_step * term.tap + row.phase, channel = kChannels * term.pair;
      if (term.tap < p.taps && row.there(p) && k >= 0 && k < p.k_count) {
        uint32_t parts[A::kParts];
        weight_word<A>(p, weight + row.channel * p.weight_row + channel * p.weight_channel + k, channel,
                       parts);
#pragma unroll
        for (int part = 0; part < A::kParts; ++part) words[part][r] = parts[part];
      }
    }
#pragma unroll
    for (int part = 0; part < A::kParts; ++part) {
      const uint32_t(&w)[4] = words[part];
      fragments[(i * A::kParts + part) * 32 + lane] = {w[0], w[1], w[2], w[3]};
    }
  }
}

template <class T>
__device__ inline void fill_biases(const ThinParams& p, const Place& place, float* biases) {
  for (int i = threadIdx.x; i < place.row_tiles * kThinRowTile; i += kThinThreads) {
    const Row row(p, place.first_row_tile, i);
    biases[i] = row.there(p) ? load_bias_to_add<T>(p.bias, place.group * p.output_channels + row.channel) : 0;
  }
}

// Channels of the source on their way to shared memory: by copies of 16 bytes, as they lie in memory, so that
// a channel begins at any of 8 places of its first vector.
template <class T>
class Channels {
 public:
  __device__ Channels(const ThinParams& p, const Place& place, unsigned char* shared)
      : from_(static_cast<const T*>(p.source) + int64_t{place.group} * p.channels * p.source_step[1]),
        channels_(ptx::shared_address(shared + p.channels_at)) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    first_pair_ = warp >> p.pair_warp_bits;
    first_chunk_ = warp & ((1 << p.pair_warp_bits) - 1);
    const int e = first_chunk_ * p.chunk + lane, at = static_cast<int>(p.in_stride_div.divide(e));
    pair_from_ = channels_ + e * 2;
    pair_to_ = ptx::shared_address(shared + p.window_at) + ((e - at * p.in_stride) * p.plane_pitch + at) * 4;
  }

  // Begins the copies for the tile whose first position is m of sample n.
  __device__ __forceinline__ void copy(const ThinParams& p, int n, int m, int) {
    const int first = m * p.in_stride - p.lead, lane = threadIdx.x % 32;
    const T* const tile = from_ + n * p.source_step[0] + first;
    place_ = static_cast<int>(reinterpret_cast<uintptr_t>(tile) / 2 % kVector);
    const bool inside = first >= kVector && first + p.channel_vectors * kVector <= p.source_length;
    for (int c = threadIdx.x / 32; c < p.channels; c += kThinWarps) {
      const int ahead = lane * kVector - place_of(p, c);
      const T* from = tile + c * p.source_step[1] + ahead;
      uint32_t to = channels_ + (c * p.channel_vectors + lane) * 16;
      int64_t q = int64_t{first} + ahead;
      for (int v = lane; v < p.channel_vectors; v += 32) {
        if (inside || (q >= 0 && q + kVector <= p.source_length)) {
          ptx::copy_async16(to, from);
        } else {
          copy_part(to, from, q, p.source_length);
        }
        to += 32 * 16, from += 32 * kVector, q += 32 * kVector;
      }
    }
  }

  // Of a last pair without a second channel, zeros in place of it.
  __device__ __forceinline__ void clear_missing(const ThinParams& p) const {
    if (p.channels % 2 == 0) return;
    for (int v = threadIdx.x; v < p.channel_vectors; v += kThinThreads) {
      ptx::store_shared16(channels_ + (p.channels * p.channel_vectors + v) * 16, {});
    }
  }

  // Makes words of two channels, of the tile that was copied last.
  __device__ __forceinline__ void pair(const ThinParams& p) const {
    if (static_cast<int>(threadIdx.x) % 32 >= p.chunk) return;
    if (p.pair_warp_bits == 0 && p.in_stride == 1) {
      pair_by<1>(p);
    } else if (p.pair_warp_bits == 0 && p.in_stride == 2) {
      pair_by<2>(p);
    } else {
      pair_by<0>(p);
    }
  }

 private:
  static constexpr int kVector = 8;  // elements

  // Elements of a channel's first vector that lie before the window.
  __device__ __forceinline__ int place_of(const ThinParams& p, int channel) const {
    return (place_ + channel * p.channel_places) % kVector;
  }

  // kStride: if the steps are constants: that of the planes, where no warps share a pair.
  template <int kStride>
  __device__ __forceinline__ void pair_by(const ThinParams& p) const {
    const int warps = kStride > 0 ? 1 : 1 << p.pair_warp_bits;
    const int from_step = kStride > 0 ? 64 : p.chunk * 2 * warps;
    const int to_step = kStride > 0 ? 128 / max(kStride, 1) : p.chunk_step;
    const int channel_bytes = p.channel_vectors * 16;
    const auto word = [](uint32_t low, uint32_t high) {
      return __byte_perm(ptx::load_shared2(low), ptx::load_shared2(high), 0x5410);
    };
    for (int pair = first_pair_; pair < p.pairs; pair += p.pair_step) {
      uint32_t low = pair_from_ + 2 * pair * channel_bytes + place_of(p, 2 * pair) * 2;
      uint32_t high = pair_from_ + (2 * pair + 1) * channel_bytes + place_of(p, 2 * pair + 1) * 2;
      uint32_t to = pair_to_ + pair * p.pair_pitch * 4;
      constexpr int kAhead = 4;
      int left = p.chunks - first_chunk_;
      for (; left > (kAhead - 1) * warps; left -= kAhead * warps) {
        uint32_t words[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) words[i] = word(low + i * from_step, high + i * from_step);
#pragma unroll
        for (int i = 0; i < kAhead; ++i) ptx::store_shared4(to + i * to_step, words[i]);
        low += kAhead * from_step, high += kAhead * from_step, to += kAhead * to_step;
      }
      for (; left > 0; left -= warps, low += from_step, high += from_step, to += to_step) {
        ptx::store_shared4(to, word(low, high));
      }
    }
  }

  const T* from_;
  uint32_t channels_;
  int first_pair_, first_chunk_;
  uint32_t pair_from_, pair_to_;  // the lane's first elements and word
  int place_ = 0;                 // of the first channel
};

// The same of float32, whose elements are words: each goes to its plane at once, by a copy of its own, into
// one of two windows.
template <>
class Channels<float> {
 public:
  __device__ Channels(const ThinParams& p, const Place& place, unsigned char* shared)
      : from_(static_cast<const float*>(p.source) + int64_t{place.group} * p.channels * p.source_step[1]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    first_channel_ = warp >> p.pair_warp_bits;
    first_chunk_ = warp & ((1 << p.pair_warp_bits) - 1);
    element_ = first_chunk_ * p.chunk + lane;
    const int at = static_cast<int>(p.in_stride_div.divide(element_));
    to_ =
        ptx::shared_address(shared + p.window_at) + ((element_ - at * p.in_stride) * p.plane_pitch + at) * 4;
  }

  // Begins the copies for the tile whose first position is m of sample n.
  __device__ __forceinline__ void copy(const ThinParams& p, int n, int m, int buffer) const {
    if (static_cast<int>(threadIdx.x) % 32 >= p.chunk) return;
    const int first = m * p.in_stride - p.lead;
    const float* const tile = from_ + n * p.source_step[0] + first + element_;
    if (first < 0 || first + p.chunks * p.chunk > p.source_length) {
      copy_ends(p, from_, tile, int64_t{first} + element_, to_ + buffer, first_channel_, first_chunk_);
    } else if (p.pair_warp_bits == 0 && p.in_stride == 1) {
      copy_by<1>(p, tile, to_ + buffer);
    } else if (p.pair_warp_bits == 0 && p.in_stride == 2) {
      copy_by<2>(p, tile, to_ + buffer);
    } else {
      copy_by<0>(p, tile, to_ + buffer);
    }
  }
  __device__ __forceinline__ void clear_missing(const ThinParams&) const {}

 private:
  // Chunks of each of the warp's channels. kStride: if the steps are constants: that of the planes, where no
  // warps share a channel.
  template <int kStride>
  __device__ __forceinline__ void copy_by(const ThinParams& p, const float* tile, uint32_t window) const {
    const int warps = kStride > 0 ? 1 : 1 << p.pair_warp_bits;
    const int from_step = kStride > 0 ? 32 : p.chunk << p.pair_warp_bits;
    const int to_step = kStride > 0 ? 128 / max(kStride, 1) : p.chunk_step;
    const int64_t channel_step = p.pair_step * p.source_step[1];
    const float* channel = tile + first_channel_ * p.source_step[1];
    for (int c = first_channel_; c < p.channels; c += p.pair_step, channel += channel_step) {
      const float* from = channel;
      uint32_t to = window + c * p.pair_pitch * 4;
      constexpr int kAhead = 4;
      int left = p.chunks - first_chunk_;
#pragma unroll 1
      for (; left > (kAhead - 1) * warps; left -= kAhead * warps) {
#pragma unroll
        for (int i = 0; i < kAhead; ++i) ptx::copy_async4(to + i * to_step, from + i * from_step);
        from += kAhead * from_step, to += kAhead * to_step;
      }
#pragma unroll 1
      for (; left > 0; left -= warps, from += from_step, to += to_step) ptx::copy_async4(to, from);
    }
  }
  // The same of a tile that begins or ends outside the source: zeros for what does not exist. first: the
  // place of the lane's first element; some: any that exists.
  __device__ __noinline__ static void copy_ends(const ThinParams& p, const float* some, const float* tile,
                                                int64_t first, uint32_t window, int first_channel,
                                                int first_chunk) {
    const int warps = 1 << p.pair_warp_bits, step = p.chunk << p.pair_warp_bits;
    for (int c = first_channel; c < p.channels; c += p.pair_step) {
      const float* from = tile + c * p.source_step[1];
      uint32_t to = window + c * p.pair_pitch * 4;
      int64_t q = first;
      for (int i = first_chunk; i < p.chunks; i += warps, from += step, to += p.chunk_step, q += step) {
        const bool there = q >= 0 && q < p.source_length;
        ptx::copy_async4(to, there ? from : some, there);
      }
    }
  }

  const float* from_;
  int first_channel_, first_chunk_, element_;
  uint32_t to_;  // of the lane's first element
};

#endif

}  // namespace tconv::cuda::sm80::thin
