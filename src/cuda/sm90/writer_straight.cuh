// StraightWriter: sums of stride 1 from registers to y, where packed rows are the rows of wgmma. The lanes of
// a row exchange sums, so that each stores 16 contiguous bytes, shifted if rows of y do not begin on 16
// bytes. Where samples share tiles, nothing is shifted: see store_pairs.
#pragma once

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/device/writers.cuh"
#include "cuda/sm90/blocked.hpp"
#include "cuda/sm90/blocked_repair.cuh"
#include "cuda/sm90/product_gathered.cuh"
#include "cuda/sm90/repair.cuh"
#include "cuda/sm90/rows.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class StraightWriter {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sums = float[S::kN / 2];
  using Params = typename S::Params;

  __device__ StraightWriter(const Params& p, const Block& block, unsigned char* shared)
      : p_(p), block_(block), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32 % 4) {
    const int warpgroup = threadIdx.x / 128;
    row_block_ = block.run * S::kRowBlocks + (S::kRowBlocks == 2 ? warpgroup : 0);
    first_column_ = S::kRowBlocks == 2 ? 0 : warpgroup * S::kN;
    rows_ = reinterpret_cast<const Row*>(shared + p.writer.shared_rows) +
            (S::kRowBlocks == 2 ? warpgroup : 0) * kSm90Rows;
    channel_ = int64_t{block.group} * p.sizes.cout_group + int64_t{row_block_} * kSm90Rows;
    const uintptr_t late = reinterpret_cast<uintptr_t>(p.operands.output) | p.sizes.lout * sizeof(T);
    vectors_ = late % 16 == 0;
    pairs_ = late % (2 * sizeof(T)) == 0;
  }

  __device__ void store(const Sums& sums, int tile, const Seen& seen) const {
    const Place first = place_of_tile(tile);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row row = rows_[row_of(half)];
      T* const y = static_cast<T*>(p_.operands.output) + (channel_ + row_of(half)) * p_.sizes.lout;
      const auto epilogue = epilogue_of<S>(row, seen.unscale);
      if (vectors_) {
        store_vectors(sums, half, first, y, row.at >= 0, epilogue);
      } else if (!p_.columns.folded) {
        store_shifted(sums, half, first, y, row.at >= 0, epilogue);
      } else if (row.at >= 0) {
        store_pairs(sums, half, first, y, epilogue);
      }
    }
    if constexpr (kScaledBlocks<S>) {
      __syncwarp();  // lanes of a row store each other's sums
      repair_scaled(sums, tile, first, seen.least);
      return;
    }
    if (!p_.sizes.ragged && marks() == 0) return;
    __syncwarp();
    if (any_nan(sums)) repair(sums, first);
  }

 private:
  using Registers = WgmmaAccumulator<S::kN>;
  static constexpr int kVector = 16 / sizeof(T);  // outputs of a vector
  static constexpr int kChunks = 8 / sizeof(T);   // of 8 columns, which lanes of a row share out
  static_assert(kChunks == 2 || kChunks == 4);

  // A column of the tile: of its sample or, if folded, of all samples.
  struct Place {
    int n, column;
  };
  __device__ Place place_of_tile(int tile) const {
    if (p_.columns.folded) return {0, tile * S::kColumns + first_column_};
    const int n = static_cast<int>(p_.columns.sample_tiles.divide(tile));
    return {n, (tile - n * static_cast<int>(p_.columns.sample_tiles.value)) * S::kColumns + first_column_};
  }
  // For 8 columns, which belong to one sample: their first output, and where it is from a row of sample 0 on.
  struct Outputs {
    int o;
    int64_t at;
    bool there;  // of a sample that exists
  };
  __device__ Outputs outputs_at(const Place& first, int columns) const {
    int n = first.n, column = first.column + columns;
    if (p_.columns.folded) {
      n = static_cast<int>(p_.columns.sample_pitch.divide(column));
      column -= n * p_.columns.sample_columns;
    }
    const int o = column + static_cast<int>(p_.columns.first_u) - p_.sizes.padding;
    return {o, n * p_.sizes.cout * p_.sizes.lout + o, n < p_.sizes.samples};
  }
  __device__ int row_of(int half) const {
    return warp_ * Registers::kRows + Registers::row(lane_, 2 * half);
  }

  // half is a constant wherever this is inlined.
  __device__ static T value(const Sums& sums, int i, int half, const RowEpilogue<S>& epilogue) {
    return epilogue(half == 0 ? sums[i] : sums[i + 2]);
  }
  __device__ static uint32_t exchanged(uint32_t v, int lanes) {
    return __shfl_xor_sync(0xffffffffu, v, lanes);
  }

  // A lane's neighbours in chunk j of 8 columns; then each lane has a vector of one of the group's chunks.
  __device__ static uint2 pair(const Sums& sums, int j, int half, const RowEpilogue<S>& epilogue) {
    const T left = value(sums, 4 * j, half, epilogue), right = value(sums, 4 * j + 1, half, epilogue);
    if constexpr (sizeof(T) == 4) {
      return {__float_as_uint(left), __float_as_uint(right)};
    } else {
      const uint32_t low = *reinterpret_cast<const uint16_t*>(&left);
      return {low | static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(&right)) << 16, 0};
    }
  }
  // Float32: lanes 0 and 2 of a row have the halves of the first chunk, 1 and 3 of the second.
  __device__ uint4 vector(const uint2 (&pairs)[2]) const {
    const bool odd = lane_ % 2 != 0;
    const uint2 send = odd ? pairs[0] : pairs[1], keep = odd ? pairs[1] : pairs[0];
    const uint2 got = {exchanged(send.x, 1), exchanged(send.y, 1)};
    return odd ? uint4{got.x, got.y, keep.x, keep.y} : uint4{keep.x, keep.y, got.x, got.y};
  }
  // 16-bit types: lane t of a row has chunk t.
  __device__ uint4 vector(const uint2 (&pairs)[4]) const {
    const bool odd = lane_ % 2 != 0, high = lane_ % 4 >= 2;
    uint32_t words[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t left = pairs[2 * i].x, right = pairs[2 * i + 1].x;
      const uint32_t got = exchanged(odd ? left : right, 1);
      words[i][0] = odd ? got : left;
      words[i][1] = odd ? right : got;
    }
    const uint32_t first = exchanged(high ? words[0][0] : words[1][0], 2),
                   second = exchanged(high ? words[0][1] : words[1][1], 2);
    return high ? uint4{first, second, words[1][0], words[1][1]}
                : uint4{words[0][0], words[0][1], first, second};
  }

  // The lane's vector of the kChunks chunks from j on.
  __device__ uint4 vector_of(const Sums& sums, int j, int half, const RowEpilogue<S>& epilogue) const {
    uint2 pairs[kChunks];
#pragma unroll
    for (int q = 0; q < kChunks; ++q) pairs[q] = pair(sums, j + q, half, epilogue);
    return vector(pairs);
  }

  __device__ void store_vectors(const Sums& sums, int half, const Place& first, T* y, bool there,
                                const RowEpilogue<S>& epilogue) const {
    const int chunk = lane_ % kChunks, inner = sizeof(T) == 4 ? lane_ % 4 / 2 * kVector : 0;
#pragma unroll
    for (int j = 0; j < S::kN / 8; j += kChunks) {
      const uint4 v = vector_of(sums, j, half, epilogue);
      const Outputs at = outputs_at(first, 8 * (j + chunk));
      if (!there || !at.there) continue;
      const int o = at.o + inner;
      if (o >= 0 && o < p_.sizes.lout) {
        ptx::store_global16(reinterpret_cast<uintptr_t>(y + at.at + inner), v);
      }
    }
  }

  // Rows begin anywhere: a lane stores 16 bytes that begin on 16, the end of its neighbour's vector and the
  // beginning of its own.
  __device__ void store_shifted(const Sums& sums, int half, const Place& first, T* y, bool there,
                                const RowEpilogue<S>& epilogue) const {
    const int chunk = lane_ % kChunks, inner = sizeof(T) == 4 ? lane_ % 4 / 2 * kVector : 0;
    // Lanes of a row in the order of their vectors: 0 1 2 3, or 0 2 1 3 in float32.
    const int quad = lane_ & ~3, t = lane_ & 3;
    const int before = quad | (sizeof(T) == 2 || t == 0 ? (t + 3) & 3 : t == 1 ? 2 : t == 2 ? 0 : 1);
    const Outputs origin = outputs_at(first, 0);
    T* const row = y + origin.at - origin.o;  // output 0
    const int end = origin.o + S::kN;
    const auto late = static_cast<int>(reinterpret_cast<uintptr_t>(y + origin.at) % 16 / sizeof(T));
    uint4 previous = {0, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < S::kN / 8; j += kChunks) {
      const uint4 v = vector_of(sums, j, half, epilogue);
      // Component by component: of the whole struct, the choice would go through local memory.
      const bool last = t == 3;
      const uint4 left = moved({last ? previous.x : v.x, last ? previous.y : v.y, last ? previous.z : v.z,
                                last ? previous.w : v.w},
                               before);
      previous = v;
      const int o = origin.o + 8 * (j + chunk) + inner - late;
      if (there && origin.there) store_some(row, o, funnel(left, v, kVector - late), origin.o, end);
    }
    // What the last vector has left.
    if (t == 3 && there && origin.there) {
      store_some(row, end - late, funnel(previous, {0, 0, 0, 0}, kVector - late), origin.o, end);
    }
  }
  __device__ static uint4 moved(const uint4& v, int lane) {
    return {__shfl_sync(0xffffffffu, v.x, lane), __shfl_sync(0xffffffffu, v.y, lane),
            __shfl_sync(0xffffffffu, v.z, lane), __shfl_sync(0xffffffffu, v.w, lane)};
  }
  template <int Words>
  __device__ static void drop(uint32_t (&w)[8], bool so) {
#pragma unroll
    for (int i = 0; i + Words < 8; ++i) w[i] = so ? w[i + Words] : w[i];
  }
  // Elements [first, first + kVector) of those of `left` and `right`, one after the other.
  __device__ static uint4 funnel(const uint4& left, const uint4& right, int first) {
    uint32_t w[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
    const int bytes = first * static_cast<int>(sizeof(T));
    drop<4>(w, (bytes & 16) != 0);
    drop<2>(w, (bytes & 8) != 0);
    drop<1>(w, (bytes & 4) != 0);
    if constexpr (sizeof(T) == 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = __funnelshift_r(w[i], w[i + 1], bytes % 4 * 8);
    }
    return {w[0], w[1], w[2], w[3]};
  }
  // The outputs of a vector, from `o` on, that lie in [first, end) and exist.
  __device__ void store_some(T* row, int o, const uint4& v, int first, int end) const {
    first = max(first, 0);
    end = static_cast<int>(min(int64_t{end}, p_.sizes.lout));
    if (o >= first && o + kVector <= end) {
      ptx::store_global16(reinterpret_cast<uintptr_t>(row + o), v);
      return;
    }
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (o + e < first || o + e >= end) continue;
      if constexpr (sizeof(T) == 4) {
        row[o + e] = __uint_as_float(w[e]);
      } else {
        reinterpret_cast<uint16_t*>(row)[o + e] = static_cast<uint16_t>(w[e / 2] >> e % 2 * 16);
      }
    }
  }

  // Samples share tiles, and y does not begin on 16 bytes, though its rows would: the lanes of a row store
  // their own neighbours. Where y begins between pairs they store elements, which L2 takes a quarter as fast.
  __device__ void store_pairs(const Sums& sums, int half, const Place& first, T* y,
                              const RowEpilogue<S>& epilogue) const {
    const int inner = Registers::column(lane_, 0);
#pragma unroll
    for (int j = 0; j < S::kN / 8; ++j) {
      const Outputs at = outputs_at(first, 8 * j);
      const int o = at.o + inner;
      const T left = value(sums, 4 * j, half, epilogue), right = value(sums, 4 * j + 1, half, epilogue);
      const bool has_left = at.there && o >= 0 && o < p_.sizes.lout,
                 has_right = at.there && o + 1 >= 0 && o + 1 < p_.sizes.lout;
      T* const to = y + at.at + inner;
      if (has_left && has_right && pairs_) {
        store_pair(to, left, right);
      } else {
        if (has_left) to[0] = left;
        if (has_right) to[1] = right;
      }
    }
  }

  __device__ uint32_t marks() const {
    return weight_marks(p_, block_, row_block_);
  }
  // The thread's own outputs that are NaN.
  __device__ void repair(const Sums& sums, const Place& first) const {
    for_each_nan(sums, false, [&](int i) {
      const Spot at = spot(first, i, lane_);
      if (at.there) store_again(at, sum_again<S>(p_, block_, row_block_, at.row, at.n, at.u));
    });
  }
  // The same of scaled blocks: a warp's outputs that may be wrong.
  __device__ void repair_scaled(const Sums& sums, int tile, const Place& first, float least) const {
    const auto exists = [&](int i) {
      const Spot at = spot(first, i, lane_);
      return at.there && !begins_with_nan<S>(p_, block_, row_block_, at.row, at.n, at.u);
    };
    for_each_wrong(sums, least, written_columns<S>(p_, tile, first_column_), exists, [&](int i, int lane) {
      const Spot at = spot(first, i, lane);
      const float sum = exact_sum<S>(p_, block_, row_block_, at.row, at.n, at.u);
      if (lane_ == 0) store_again(at, sum);
    });
  }
  // The output of which sum i of a lane is one.
  struct Spot {
    int row;
    int64_t n, u, to;
    bool there;
  };
  __device__ Spot spot(const Place& first, int i, int lane) const {
    const TilePlace of_warp = Registers::place({lane, i});
    const int row = warp_ * Registers::kRows + of_warp.row, inner = of_warp.column & 7;
    const Outputs at = outputs_at(first, of_warp.column & ~7);
    const int o = at.o + inner;
    return {row, (at.at - at.o) / (p_.sizes.cout * p_.sizes.lout), int64_t{o} + p_.sizes.padding,
            (channel_ + row) * p_.sizes.lout + at.at + inner,
            rows_[row].at >= 0 && at.there && o >= 0 && o < p_.sizes.lout};
  }
  __device__ void store_again(const Spot& spot, float sum) const {
    static_cast<T*>(p_.operands.output)[spot.to] = epilogue_of_exact<S>(rows_[spot.row])(sum);
  }

  const Params& p_;
  const Block& block_;
  int lane_, warp_, row_block_, first_column_;
  const Row* rows_;
  int64_t channel_;       // of y, of the row block's first row
  bool vectors_, pairs_;  // rows of y begin on 16 bytes, or on pairs
};

#endif

}  // namespace tconv::cuda::sm90
