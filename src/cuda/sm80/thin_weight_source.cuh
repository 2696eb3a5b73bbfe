// What comes into shared memory for cuda.sm80.thin_weight (thin_weight.hpp): channels as they lie in memory,
// and words of two positions that are made of them.
#pragma once

#include "cuda/device/scalar.cuh"
#include "cuda/sm80/thin_copy.cuh"
#include "cuda/sm80/thin_weight.hpp"

namespace tconv::cuda::sm80::thin_weight {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Tiles of an mma of a side that a block has, and the channels that they need.
struct Range {
  int first_tile, tiles;
  int first_channel, channels;

  __device__ Range(const ThinWeightSide& s, int block, int tile_size) {
    first_tile = block * s.block_tiles;
    tiles = min(s.block_tiles, s.tiles - first_tile);
    first_channel = static_cast<int>(s.by_taps.divide(first_tile * tile_size));
    const int last = min(s.channels * s.taps, (first_tile + tiles) * tile_size) - 1;
    channels = static_cast<int>(s.by_taps.divide(last)) - first_channel + 1;
  }
};

// What a block and a warp of it work on: tiles of positions [first, end), and tiles of the block's rows and
// columns. The warps that share those deal the steps of a tile of positions among themselves, and `depth` is
// this one's number.
struct Task {
  int group, walker, first, end;
  Range rows, columns;
  int row_tile, column_tile, depth;

  __device__ Task(const ThinWeightParams& p, int mi, int ni) : Task(p, Block(p), mi, ni) {}

 private:
  struct Block {
    int group, row, column, walker;
    __device__ explicit Block(const ThinWeightParams& p) {
      const auto all = static_cast<int>(p.walkers.divide(blockIdx.x));
      walker = static_cast<int>(blockIdx.x) - all * static_cast<int>(p.walkers.value);
      const auto rows = static_cast<int>(p.columns.blocks.divide(all));
      column = all - rows * static_cast<int>(p.columns.blocks.value);
      group = static_cast<int>(p.rows.blocks.divide(rows));
      row = rows - group * static_cast<int>(p.rows.blocks.value);
    }
  };
  __device__ Task(const ThinWeightParams& p, const Block& block, int mi, int ni)
      : group(block.group),
        walker(block.walker),
        rows(p.rows, block.row, kThinWeightRows),
        columns(p.columns, block.column, kThinWeightColumns) {
    const int64_t walkers = p.walkers.value;
    first = static_cast<int>(int64_t{p.tiles} * walker / walkers);
    end = static_cast<int>(int64_t{p.tiles} * (walker + 1) / walkers);
    const int warp = threadIdx.x / 32, tile = warp >> p.depth_warp_bits;
    depth = warp & ((1 << p.depth_warp_bits) - 1);
    row_tile = (tile & ((1 << p.row_warp_bits) - 1)) * mi;
    column_tile = (tile >> p.row_warp_bits) * ni;
  }
};

// The channels of a side that a block needs, on their way to shared memory.
template <class T>
class Channels {
 public:
  static constexpr int kVector = 16 / sizeof(T);  // elements

  __device__ Channels(const ThinWeightSide& s, const Range& range, int group, const unsigned char* shared)
      : from_(static_cast<const T*>(s.from) +
              (int64_t{group} * s.channels + range.first_channel) * s.step[1]),
        count_(range.channels),
        shared_(ptx::shared_address(shared)) {}

  // Begins the copies for the tile whose first position is m of sample n, by 16 bytes as they lie in memory,
  // so that a channel begins at any place of its first vector.
  __device__ __forceinline__ void copy(const ThinWeightSide& s, int n, int m, int buffer) {
    const int64_t first = int64_t{m} * s.stride - s.lead;
    const T* const begin = from_ + n * s.step[0] + first;
    place_ = static_cast<int>(reinterpret_cast<uintptr_t>(begin) / sizeof(T) % kVector);
    const bool inside = first >= kVector && first + s.vectors * kVector <= s.length;
    const uint32_t to = shared_ + buffer + s.channels_at;
    if (thin_weight_lanes(s.vectors) < 32) {
      copy_by<kThinWeightFewLanes>(s, begin, first, to, inside);
    } else {
      copy_by<32>(s, begin, first, to, inside);
    }
  }

  // Makes words of two positions, of the tile that was copied last. They keep their channel's place.
  template <int kTogether>
  __device__ __forceinline__ void make(const ThinWeightSide& s) const {
    thin_weight_lanes(s.quads) < 32 ? make_by<kTogether, kThinWeightFewLanes>(s) : make_by<kTogether, 32>(s);
  }

  // Of the first channel of the tile that was copied last: elements of its first vector that lie before it.
  __device__ __forceinline__ int place() const { return place_; }

 private:
  template <int kLanes>
  __device__ __forceinline__ void copy_by(const ThinWeightSide& s, const T* begin, int64_t first,
                                          uint32_t shared, bool inside) const {
    const int lane = threadIdx.x % kLanes;
    for (int c = threadIdx.x / kLanes; c < count_; c += kThinWeightThreads / kLanes) {
      const int ahead = lane * kVector - (place_ + c * s.places & kVector - 1);
      const T* from = begin + c * s.step[1] + ahead;
      uint32_t to = shared + c * s.channel_bytes + lane * 16;
      int left = s.vectors - lane;
      if (!inside) {
        copy_parts<kLanes>(to, from, first + ahead, s.length, left);
        continue;
      }
#pragma unroll 1
      for (; left > 0; left -= kThinWeightTogether * kLanes) {
#pragma unroll
        for (int i = 0; i < kThinWeightTogether; ++i) {
          if (left > i * kLanes) ptx::copy_async16(to + i * kLanes * 16, from + i * kLanes * kVector);
        }
        to += kThinWeightTogether * kLanes * 16, from += kThinWeightTogether * kLanes * kVector;
      }
    }
  }
  // The lane's vectors of a channel that begins or ends among them: zeros for what does not exist. A vector
  // of which only the first elements are missing is filled by loads, which are waited for. q: the place of
  // the first element.
  template <int kLanes>
  __device__ __noinline__ static void copy_parts(uint32_t to, const T* from, int64_t q, int64_t length,
                                                 int left) {
    for (; left > 0; left -= kLanes, to += kLanes * 16, from += kLanes * kVector, q += kLanes * kVector) {
      if (q >= 0 && q < length) {
        ptx::copy_async16(to, from, static_cast<int>(min(int64_t{kVector}, length - q) * sizeof(T)));
      } else if (q < 0 && q > -kVector) {
        copy_part(to, from, q, length);
      } else {
        ptx::store_shared16(to, {});
      }
    }
  }

  template <int kTogether, int kLanes>
  __device__ __forceinline__ void make_by(const ThinWeightSide& s) const {
    const int lane = threadIdx.x % kLanes;
    for (int c = threadIdx.x / kLanes; c < count_; c += kThinWeightThreads / kLanes) {
      uint32_t low = shared_ + s.channels_at + c * s.channel_bytes + lane * 8, high = low + s.second * 2;
      uint32_t to = shared_ + s.words_at + c * s.pitch * 4 + lane * 16;
#pragma unroll 1
      for (int left = s.quads - lane; left > 0; left -= kTogether * kLanes) {
        uint2 a[kTogether], b[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          if (left <= i * kLanes) continue;
          a[i] = ptx::load_shared8(low + i * kLanes * 8), b[i] = ptx::load_shared8(high + i * kLanes * 8);
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          if (left <= i * kLanes) continue;
          ptx::store_shared16(to + i * kLanes * 16,
                              {__byte_perm(a[i].x, b[i].x, 0x5410), __byte_perm(a[i].x, b[i].x, 0x7632),
                               __byte_perm(a[i].y, b[i].y, 0x5410), __byte_perm(a[i].y, b[i].y, 0x7632)});
        }
        to += kTogether * kLanes * 16, low += kTogether * kLanes * 8, high += kTogether * kLanes * 8;
      }
    }
  }

  const T* from_;
  int count_;
  uint32_t shared_;
  int place_ = 0;
};

#endif

}  // namespace tconv::cuda::sm80::thin_weight
