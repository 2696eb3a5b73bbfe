// LineWriter: sums of stride 1 become rows of y, where packed rows are the rows of wgmma. A warp has 16
// rows, and warps do not wait for each other:
//
//   for each line of 64 bytes of a row, one more than the tile's columns fill:
//     stage the sums of as many columns, rounded, in a ring of two lines for each row, in shared memory
//     (one line, if rows of y begin on lines)
//     4 lanes a row store the line, 16 bytes each
//
// Lines are those of memory, wherever rows of y begin: staged columns are shifted, and what they have beyond
// the line begins the next one. (Of sectors that two stores fill, L2 takes half as many.) Where samples share
// tiles, nothing is shifted: rows of y begin on 16 bytes then, and 8 columns belong to one sample.
//
// Only the code that names sums is repeated for each line. What a block runs once is fetched from L2, at 1 to
// 3 bytes a clock: with everything unrolled, the first tile of 128x256 took 12 us in tf32 where the second
// took 3.5 (n1 ci32 co32 l128000 k3).
#pragma once

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/sm90/blocked.hpp"
#include "cuda/sm90/blocked_repair.cuh"
#include "cuda/sm90/product_gathered.cuh"
#include "cuda/sm90/repair.cuh"
#include "cuda/sm90/rows.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class LineWriter {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sums = float[S::kN / 2];
  using Params = typename S::Params;
  using Later = LaterSums<S>;

  __device__ static void prepare_rows(const Params& p, const Block& block, unsigned char* shared) {
    make_rows<S>(p, block, shared, [](int /*inner*/, int /*phase*/, bool there) { return there ? 0 : -1; });
  }

  __device__ LineWriter(const Params& p, const Block& block, unsigned char* shared) : p_(p), block_(block) {
    const int thread = static_cast<int>(threadIdx.x);
    lane_ = thread % 32, warp_ = thread / 32 % 4, warpgroup_ = thread / 128;
    row_block_ = block.run * S::kRowBlocks + (S::kRowBlocks == 2 ? warpgroup_ : 0);
    first_column_ = S::kRowBlocks == 2 ? 0 : warpgroup_ * S::kN;
    rows_ = reinterpret_cast<const Row*>(shared + p.writer.shared_rows) +
            (S::kRowBlocks == 2 ? warpgroup_ : 0) * kSm90Rows;
    channel_ = int64_t{block.group} * p.sizes.cout_group + int64_t{row_block_} * kSm90Rows;
    const uint32_t row = lane_ / 4, ring = p.writer.line_ring * (thread / 32 * Registers::kRows + row);
    const uint32_t swizzle = (row & 1) << 6 | (row & 2) << 4 | (row & 4) << 2;
    staged_ = (ptx::shared_address(shared + p.writer.shared) + ring) ^ swizzle % p.writer.line_ring;
  }

  // Stores a tile's outputs. True: some sums must be made again, which `later` has.
  template <bool Repairs>
  __device__ bool store(const Sums& sums, int tile, const Seen& seen, Later& later) const {
    const Place first = place_of_tile(tile);
    if constexpr (kMarksTiles<S>) {
      if (threadIdx.x % 128 == 0)
        block_.marks(p_)[2 * tile + threadIdx.x / 128] = seen.marked || marks() != 0;
    }
    if constexpr (kScaledBlocks<S>) {
      later = Later(sums, seen.least, written_columns<S>(p_, tile, first_column_));
      store_lines(sums, first, seen.unscale);
      return later.any();
    } else {
      store_lines(sums, first, seen.unscale);
      if constexpr (kMarksTiles<S> || !Repairs) return false;
      return find_again<S>(p_, sums, seen.marked || marks() != 0, later);
    }
  }

  // For sums that are made again: the output of which sum i of a lane is one.
  __device__ OutputSpot spot(int tile, int i, int lane) const {
    const TilePlace of_warp = Registers::place({lane, i});
    const int row = warp_ * Registers::kRows + of_warp.row, inner = of_warp.column & 7;
    const Outputs at = outputs_at(place_of_tile(tile), of_warp.column & ~7);
    const int o = at.o + inner;
    const bool there = rows_[row].at >= 0 && at.there && o >= 0 && o < p_.sizes.lout;
    return {row, (at.at - at.o) / (p_.sizes.cout * p_.sizes.lout), int64_t{o} + p_.sizes.padding,
            there ? (channel_ + row) * p_.sizes.lout + at.at + inner : -1};
  }
  __device__ void store_again(const OutputSpot& spot, float sum) const {
    static_cast<T*>(p_.operands.output)[spot.to] = epilogue_of_exact<S>(rows_[spot.row])(sum);
  }
  __device__ int row_block() const { return row_block_; }

 private:
  using Registers = WgmmaAccumulator<S::kN>;
  static constexpr uint32_t kSize = sizeof(T);
  static constexpr int kVector = 16 / kSize;  // outputs of a vector
  static constexpr int kLine = kSm90LineBytes / sizeof(T);
  static constexpr int kChunks = kLine / 8;  // of 8 columns
  static constexpr int kLines = S::kN / kLine;
  static constexpr uint32_t kTwoLines = 2 * kSm90LineBytes;

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
  __device__ int row_of(int half) const { return warp_ * Registers::kRows + Registers::row(lane_, 2 * half); }

  // Output 0 of sample 0 of one of the lane's two rows, which it stages with the 3 other lanes of that row,
  // and stores with them.
  __device__ T* row(int half) const {
    return static_cast<T*>(p_.operands.output) + (channel_ + row_of(half)) * p_.sizes.lout;
  }
  // How many elements behind the beginning of a line column 0 is.
  __device__ int late_of(const T* column) const {
    return two_lines() ? static_cast<int>(reinterpret_cast<uintptr_t>(column) % kSm90LineBytes / kSize) : 0;
  }
  __device__ bool two_lines() const { return p_.writer.line_ring > kSm90LineBytes; }

  __device__ void store_lines(const Sums& sums, const Place& first, float unscale) const {
    const Outputs origin = outputs_at(first, 0);
    const Row rows[2] = {rows_[row_of(0)], rows_[row_of(1)]};
    RowEpilogue<S> epilogues[2] = {epilogue_of<S>(rows[0], unscale), epilogue_of<S>(rows[1], unscale)};
    T* y = row(0);
    int late[2] = {late_of(y + origin.at), late_of(y + origin.at + 8 * p_.sizes.lout)};
    const bool shifted = __any_sync(~0u, (late[0] | late[1]) != 0),
               odd = __any_sync(~0u, ((late[0] | late[1]) & 1) != 0);
    const int vector = lane_ % 4 * kVector;  // of a line
    const bool folded = p_.columns.folded;
    y += folded ? 0 : origin.at + vector;
    // The same in all lanes, which the compiler then knows: a loop that lanes might leave one by one costs
    // the whole kernel its uniform registers (n1 ci96 co96 l12800 k11 bf16: 14.1 us, and 16.7).
    const Lines lines = of_first_lane(lines_of(origin, shifted));
    const bool there[2] = {rows[0].at >= 0, rows[1].at >= 0};
    const uint32_t below = 8 * p_.writer.line_ring, turn = p_.writer.line_ring - kSm90LineBytes;
    uint32_t ring = staged_;
#pragma unroll 1
    for (int line = 0; line < lines.end; ++line) {
      renew(epilogues[0]);
      renew(epilogues[1]);
      asm volatile("" : "+r"(late[0]), "+r"(late[1]), "+l"(y));  // kept, and nothing made of them
      if (line < kLines) {
        // Where the lane's first pair goes in the ring, before it is swizzled.
        const uint32_t at[2] = {kSize * (late[0] / 2 * 2 + Registers::column(lane_, 0)),
                                kSize * (late[1] / 2 * 2 + Registers::column(lane_, 0))};
        stage(sums, line, ring, at, epilogues);
      }
      __syncwarp();
      const uint32_t from = ring ^ lane_ % 4 * 16;
      uint4 v[2] = {ptx::load_shared16(from), ptx::load_shared16(from + below)};
      if (odd) {
        const uint32_t before = (lane_ % 4 * 16 + kTwoLines - 4) % kTwoLines ^ ring;
        const uint32_t words[2] = {ptx::load_shared4(before), ptx::load_shared4(before + below)};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (late[half] % 2 != 0) v[half] = one_later(words[half], v[half]);
        }
      }
      bool whole = line >= lines.whole && line < lines.end_whole;
      int64_t place = line * kLine;
      if (folded) {
        // The vector's columns belong to one sample.
        const Outputs of = outputs_at(first, line * kLine + vector);
        whole = whole && of.there && of.o >= 0 && of.o + kVector <= p_.sizes.lout;
        place = of.at;
      }
      if (__all_sync(~0u, whole)) {
        T* const to = y + place;
        if (there[0]) store_vector(to - late[0], v[0]);
        if (there[1]) store_vector(to + 8 * p_.sizes.lout - late[1], v[1]);
      } else {
        if (there[0]) store_ends(0, first, line, v[0]);
        if (there[1]) store_ends(1, first, line, v[1]);
      }
      ring ^= turn;
      __syncwarp();
    }
  }

  // Lets the compiler assume that it changes in every turn of the loop. Otherwise all outputs of the tile are
  // computed before the loop, and registers for them spill.
  __device__ static void renew(RowEpilogue<S>& epilogue) {
    asm volatile("" : "+f"(epilogue.bias));
    if constexpr (kScaledBlocks<S>) asm volatile("" : "+f"(epilogue.scale.first));
  }

  // Lines of a tile that have outputs: [0, end). Those in [whole, end_whole) have nothing else, wherever the
  // row begins.
  struct Lines {
    int whole, end_whole, end;
  };
  __device__ static Lines of_first_lane(const Lines& lines) {
    return {__shfl_sync(~0u, lines.whole, 0), __shfl_sync(~0u, lines.end_whole, 0),
            __shfl_sync(~0u, lines.end, 0)};
  }
  __device__ Lines lines_of(const Outputs& origin, bool shifted) const {
    const bool vectors = two_lines() || reinterpret_cast<uintptr_t>(p_.operands.output) % 16 == 0;
    if (p_.columns.folded) return {0, vectors ? kLines : 0, kLines};
    if (!origin.there) return {0, 0, 0};
    const int begin = max(0, -origin.o);
    const auto end = static_cast<int>(min(int64_t{S::kN}, p_.sizes.lout - origin.o));
    if (end <= begin) return {0, 0, 0};
    return {(begin + kLine - 1) / kLine + shifted, vectors ? end / kLine : 0,
            (end + kLine - 1) / kLine + shifted};
  }

  // The sums of a line's columns. Sums are registers, which cannot be indexed. ring: byte i of the line's
  // ring is at i ^ ring.
  template <int First = 0, int End = kLines>
  __device__ void stage(const Sums& sums, int line, uint32_t ring, const uint32_t (&at)[2],
                        const RowEpilogue<S> (&epilogues)[2]) const {
    if constexpr (End - First > 1) {
      constexpr int kMiddle = (First + End) / 2;
      if (line < kMiddle) {
        stage<First, kMiddle>(sums, line, ring, at, epilogues);
      } else {
        stage<kMiddle, End>(sums, line, ring, at, epilogues);
      }
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < kChunks; ++j) {
          const int i = 4 * (First * kChunks + j) + 2 * half;
          const float left = epilogues[half].value(sums[i]), right = epilogues[half].value(sums[i + 1]);
          const uint32_t pair = at[half] + kSize * 8 * j, to = ring + half * 8 * p_.writer.line_ring;
          put(pair % kTwoLines ^ to, left, right);
        }
      }
    }
  }
  __device__ static void put(uint32_t to, float left, float right) {
    if constexpr (kSize == 4) {
      ptx::store_shared8(to, {__float_as_uint(left), __float_as_uint(right)});
    } else {
      ptx::store_shared4(to, rounded_pair<T>(left, right));
    }
  }
  // A vector that begins an element before; before: the word there.
  __device__ static uint4 one_later(uint32_t before, const uint4& v) {
    if constexpr (kSize == 4) {
      return {before, v.x, v.y, v.z};
    } else {
      return {__funnelshift_l(before, v.x, 16), __funnelshift_l(v.x, v.y, 16), __funnelshift_l(v.y, v.z, 16),
              __funnelshift_l(v.z, v.w, 16)};
    }
  }
  __device__ static uint4 canonical_vector(const uint4& v) {
    return {canonical_word(v.x), canonical_word(v.y), canonical_word(v.z), canonical_word(v.w)};
  }
  __device__ static uint32_t canonical_word(uint32_t v) {
    if constexpr (kSize == 4) return __float_as_uint(canonical(__uint_as_float(v)));
    if constexpr (kSize == 2) return canonical_pair<T>(v);
  }
  __device__ static void store_vector(T* to, const uint4& v) {
    ptx::store_global16(reinterpret_cast<uintptr_t>(to), canonical_vector(v));
  }

  // The lane's vector of a line some of whose columns may be no outputs of the tile.
  __device__ void store_ends(int half, const Place& first, int line, const uint4& v) const {
    const Outputs origin = outputs_at(first, 0);
    const int column = line * kLine + lane_ % 4 * kVector;
    if (p_.columns.folded) {
      const Outputs of = outputs_at(first, column);
      if (of.there) store_some(row(half) + of.at, of.o, v, of.o, of.o + kVector);
    } else if (origin.there) {
      T* const begin = row(half) + origin.at;
      const int behind = column - late_of(begin);
      store_some(begin + behind, origin.o + behind, v, origin.o, origin.o + S::kN);
    }
  }
  // The outputs of a vector, from `o` on, that lie in [first, end) and exist.
  __device__ void store_some(T* to, int o, const uint4& v, int first, int end) const {
    first = max(first, 0);
    end = static_cast<int>(min(int64_t{end}, p_.sizes.lout));
    if (o >= first && o + kVector <= end && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
      store_vector(to, v);
      return;
    }
    const uint4 made = canonical_vector(v);
    const uint32_t w[4] = {made.x, made.y, made.z, made.w};
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (o + e < first || o + e >= end) continue;
      if constexpr (kSize == 4) {
        to[e] = __uint_as_float(w[e]);
      } else {
        reinterpret_cast<uint16_t*>(to)[e] = static_cast<uint16_t>(w[e / 2] >> e % 2 * 16);
      }
    }
  }

  __device__ uint32_t marks() const {
    return weight_marks(p_, block_, row_block_);
  }

  const Params& p_;
  const Block& block_;
  int lane_, warp_, warpgroup_, row_block_, first_column_;
  const Row* rows_;
  int64_t channel_;  // of y, of the row block's first row
  uint32_t staged_;  // the ring of the lane's first row
};

#endif

}  // namespace tconv::cuda::sm90
