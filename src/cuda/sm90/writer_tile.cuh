// TileWriter: sums of positions become rows of y. Which way a tile takes depends on the addresses of its rows
// and on whether all of them exist (`tconv plan` names the ways that a plan may take):
//
//   straight from registers                                                     RegisterWriter
//   windows of float32 rows, staged as they lie in y                            WindowWriter
//   else, for any stride, phases and alignment, and at a sample's ends:         here
//     for each pass, 32 or 64 of the packed rows:
//       stage them as [cout][output] in shared memory, residues interleaved, bias where an output has no taps
//       store the staged rows (StagedRows)
//
// If rows of y are aligned well enough, each warp stages and stores its 32 positions alone, and warps do not
// wait for each other. Otherwise a warpgroup stages its 128, and vectors of a row's window are read as two
// staged ones, shifted: the window begins at the first output on a boundary of window_bytes and ends where
// the next tile's window begins, so that tiles overlap by a few positions, and no sector of memory is written
// by two blocks.
#pragma once

#include "cuda/sm90/repair.cuh"
#include "cuda/sm90/tile_readers.cuh"
#include "cuda/sm90/writer_register.cuh"
#include "cuda/sm90/writer_window.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// How a lane stages its outputs.
enum class Staging {
  run,    // stride 1: 4 neighbouring positions
  twice,  // stride 2: 8 of them, of both phases, or with bias in every second one
  pairs,  // as many phases as the stride, which is even: 2 neighbours
  single  // any phases
};

template <class S>
class TileWriter : StagedRows<S> {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sums = TileSums<S>;
  static constexpr bool kScaled = kIsScaled<Mode>;
  static constexpr int kSize = sizeof(T), kVector = 16 / kSize, kOwn = S::kOwn;
  static constexpr bool kNeighbours = S::kApart == 1;

  // Rows that do not exist come after all others: several lanes write to one place there, which nobody reads.
  __device__ static void prepare_rows(const Sm90TmaParams& p, const Block& block, unsigned char* shared) {
    make_rows<S>(p, block, shared, [&p](int inner, int phase, bool there) {
      const int pitch = p.writer.row_pitch, couts = p.writer.pass_couts;
      return (there ? inner % couts * pitch + phase * p.sizes.dilation : couts * pitch) * kSize;
    });
  }

  __device__ TileWriter(const Sm90TmaParams& p, const Block& block, unsigned char* shared, int warp, int lane)
      : StagedRows<S>(p, shared, warp, lane), block_(block) {
    at_ = (p.writer.windows ? warp_ * S::kWarpPositions : 0) + TileRegisters<S>::position(lane_, 0);
    before_ = p.writer.windows ? 0 : warp_ * S::kWarpPositions;
    rows_ = ptx::shared_address(shared + p.writer.shared_rows) + lane_ % 4 * 2 * sizeof(Row);
  }

  __device__ void store(Sums& sums, int tile, const TileSeen& seen) {
    const auto [n, at, column] = place_of(p_, tile);
    if (n >= p_.sizes.samples) return;  // the odd one of the last pair
    const int64_t u = p_.columns.first_u + column + before_;
    const int64_t first = u * p_.sizes.stride - p_.sizes.padding;
    T* y = static_cast<T*>(p_.operands.output) +
           (int64_t{n} * p_.sizes.cout + int64_t{block_.group} * p_.sizes.cout_group) * p_.sizes.lout;
    if constexpr (kScaled) {
      if (__any_sync(0xffffffffu, seen.marked) || seen.weights_marked) mark(n, column);
    }
    store_passes(sums, y, at, first, seen.unscale);
    if constexpr (kScaled) return;
    if (!p_.sizes.ragged && !seen.weights_marked) return;
    sync();  // others store this thread's sums
    if (any_nan(sums)) repair(sums, y, n, at, u, first);
  }

 private:
  // The tiles of the second launch that the tile at the sample's column `place` reaches into.
  __device__ void mark(int n, int place) const {
    int* marks = block_.marks(p_) + 2 * n * static_cast<int>(p_.columns.sample_tiles.value);
    const int last =
        min((place + S::kPositions - 1) / S::kColumns, static_cast<int>(p_.columns.sample_tiles.value) - 1);
    for (int tile = place / S::kColumns; tile <= last; ++tile) marks[2 * tile] = 1;
  }

  // Only the code that names sums is repeated for each pass: code that did not fit the instruction cache took
  // a third of the time.
  __device__ void store_passes(const Sums& sums, T* y, int tile, int64_t first, float unscale) const {
    const int row_block = block_.run * S::kRowBlocks;
    if constexpr (RegisterWriter<S>::kAble) {
      const int cout = row_block * p_.sizes.block_couts;
      const uintptr_t row = reinterpret_cast<uintptr_t>(y + cout * p_.sizes.lout + first);
      const RegisterWriter<S> straight(p_, rows_, lane_);
      if (straight.takes(row) && inside(first)) {
        straight.store(sums, row, p_.sizes.cout_group - cout, unscale);
        return;
      }
    }
    if constexpr (WindowWriter<S>::kAble) {
      const int cout = row_block * p_.sizes.block_couts;
      const uintptr_t row = reinterpret_cast<uintptr_t>(y + cout * p_.sizes.lout + first);
      const WindowWriter<S> windows(*this, rows_, at_);
      if (windows.takes(row, p_.sizes.cout_group - cout) && !at_ends(tile, first)) {
        windows.store(sums, row, unscale);
        return;
      }
    }
    const int halves = 2 * min(S::kRowBlocks, p_.sizes.row_blocks - row_block);
#pragma unroll 1
    for (int half = 0; half < halves; ++half) {
      stage_half(sums, half, unscale);
      const bool whole = p_.writer.pass_rows == kSm90Rows;
      if (whole && half % 2 == 0) continue;
      const int before = whole ? 0 : half % 2 * p_.writer.pass_couts, block = row_block + half / 2;
      const int cout = block * p_.sizes.block_couts + before;
      const int couts =
          min(min(p_.writer.pass_couts, p_.sizes.block_couts - before), p_.sizes.cout_group - cout);
      sync();
      if (couts > 0) store_pass(y + cout * p_.sizes.lout + first, couts, tile, first);
      sync();
    }
  }

  // 32 packed rows.
  __device__ void stage_half(const Sums& sums, int half, float unscale) const {
    if (p_.sizes.stride == 1) {
      stage<Staging::run>(sums, half, unscale);
    } else if (p_.sizes.stride == 2) {
      stage<Staging::twice>(sums, half, unscale);
    } else if (p_.sizes.phases == p_.sizes.stride && p_.sizes.stride % 2 == 0) {
      stage<Staging::pairs>(sums, half, unscale);
    } else {
      stage<Staging::single>(sums, half, unscale);
    }
  }
  template <Staging How>
  __device__ void stage(const Sums& sums, int half, float unscale) const {
    // sums are registers, which cannot be indexed.
    if (half == 0) {
      stage<How, 0>(sums, unscale);
    } else if (half == 1) {
      stage<How, 1>(sums, unscale);
    } else if constexpr (S::kRowBlocks == 2) {
      if (half == 2) {
        stage<How, 2>(sums, unscale);
      } else {
        stage<How, 3>(sums, unscale);
      }
    }
  }
  template <Staging How, int Half>
  __device__ void stage(const Sums& sums, float unscale) const {
    Row table[4][2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) table[j][e] = load_row(rows_, Half * 32 + 8 * j + e);
    }
    const int step = p_.sizes.stride * kSize;
    const uint32_t to = staged_ + at_ * step;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const Row &a = table[j][0], &b = table[j][1];
      const auto of_a = epilogue_of<S>(a, unscale), of_b = epilogue_of<S>(b, unscale);
      T va[kOwn], vb[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        va[i] = rounded<T>(of_a.value(tile_sum<S>(sums, Half * 4 + j, i, 0)));
        vb[i] = rounded<T>(of_b.value(tile_sum<S>(sums, Half * 4 + j, i, 1)));
      }
      put<How>(to, step, a, va, b, vb);
    }
  }
  // A lane's outputs of two rows.
  template <Staging How>
  __device__ void put(uint32_t to, int step, const Row& a, const T (&va)[kOwn], const Row& b,
                      const T (&vb)[kOwn]) const {
    if constexpr (How == Staging::run) {
      put_run(to + a.at, va);
      put_run(to + b.at, vb);
    } else if constexpr (How == Staging::twice) {
      const T bias_a = alone(a), bias_b = alone(b);
      if constexpr (!kNeighbours) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const uint32_t at = to + i * S::kApart * step;
          put(at + a.at, va[i], p_.sizes.phases == 2 ? vb[i] : bias_a);
          if (p_.sizes.phases == 1) put(at + b.at, vb[i], bias_b);
        }
      } else if (p_.sizes.phases == 2) {
#pragma unroll
        for (int i = 0; i < kOwn; i += 2) put(to + a.at + 2 * i * kSize, va[i], vb[i], va[i + 1], vb[i + 1]);
      } else {
#pragma unroll
        for (int i = 0; i < kOwn; i += 2) {
          put(to + a.at + 2 * i * kSize, va[i], bias_a, va[i + 1], bias_a);
          put(to + b.at + 2 * i * kSize, vb[i], bias_b, vb[i + 1], bias_b);
        }
      }
    } else if constexpr (How == Staging::pairs) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) put(to + a.at + i * S::kApart * step, va[i], vb[i]);
    } else {
      put_each(to + a.at, a, va);
      put_each(to + b.at, b, vb);
    }
  }
  // An output without products.
  __device__ static T alone(const Row& row) {
    return rounded<T>(epilogue_of<S>(row, 1).value_alone());
  }
  __device__ static void put_run(uint32_t to, const T (&v)[kOwn]) {
    if constexpr (!kNeighbours) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) put(to + i * S::kApart * kSize, v[i]);
    } else if constexpr (kOwn == 4) {
      put(to, v[0], v[1], v[2], v[3]);
    } else {
      put(to, v[0], v[1]);
    }
  }
  // Neighbours.
  __device__ static void put(uint32_t to, T a, T b, T c, T d) {
    if constexpr (kSize == 4) {
      ptx::store_shared16(to, {element_bits(a), element_bits(b), element_bits(c), element_bits(d)});
    } else {
      ptx::store_shared8(to, {element_pair(a, b), element_pair(c, d)});
    }
  }
  __device__ static void put(uint32_t to, T a, T b) {
    if constexpr (kSize == 4) {
      ptx::store_shared8(to, {element_bits(a), element_bits(b)});
    } else {
      ptx::store_shared4(to, element_pair(a, b));
    }
  }
  __device__ static void put(uint32_t to, T a) {
    if constexpr (kSize == 4) {
      ptx::store_shared4(to, element_bits(a));
    } else {
      ptx::store_shared2(to, static_cast<uint16_t>(element_bits(a)));
    }
  }
  __device__ void put_each(uint32_t to, const Row& row, const T (&v)[kOwn]) const {
    const int step = S::kApart * p_.sizes.stride * kSize;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) put(to + i * step, v[i]);
    if (row.gap == 0) return;
    const T bias = alone(row);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll 1
      for (int g = 1; g <= row.gap; ++g) put(to + i * step + g * kSize, bias);
    }
  }

  // The thread's own outputs that are NaN, of those that the tile has stored: others may not be stored yet.
  __device__ void repair(const Sums& sums, T* y, int n, int tile, int64_t u, int64_t first) const {
    using Registers = TileRegisters<S>;
    for_each_nan(sums, false, [&](int i) {
      const auto [position, packed] = Registers::place({lane_, i});
      const int row_block = block_.run * S::kRowBlocks + packed / kSm90Rows, row = packed % kSm90Rows;
      const int inner = row / p_.sizes.phases, cout = row_block * p_.sizes.block_couts + inner;
      const int column = at_ + position - Registers::position(lane_, 0);
      const int e = column * p_.sizes.stride + row % p_.sizes.phases * p_.sizes.dilation;
      T* to = y + cout * p_.sizes.lout + first;
      int window_from, window_to;
      window_of(to, tile, window_from, window_to);
      if (inner >= p_.sizes.block_couts || cout >= p_.sizes.cout_group) return;
      if (e < window_from || e >= window_to || first + e < 0 || first + e >= p_.sizes.lout) return;
      const Row r = load_row(rows_, packed - lane_ % 4 * 2);
      to[e] = epilogue_of<S>(r, 1)(sum_again<S>(p_, block_, row_block, row, n, u + column));
    });
  }

  using StagedRows<S>::p_;
  using StagedRows<S>::lane_;
  using StagedRows<S>::warp_;
  using StagedRows<S>::staged_;
  using StagedRows<S>::sync;
  using StagedRows<S>::at_ends;
  using StagedRows<S>::inside;
  using StagedRows<S>::store_pass;
  using StagedRows<S>::window_of;

  const Block& block_;
  int at_, before_;  // the lane's first position among the staged ones; theirs in the tile
  uint32_t rows_;
};

#endif

}  // namespace tconv::cuda::sm90
