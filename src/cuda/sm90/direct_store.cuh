// The epilogue of direct.cuh: sums of positions become rows of y. Straight from registers
// (direct_straight.cuh), in windows of float32 rows (direct_windows.cuh), or, of any strides, phases and
// alignment, and at a sample's ends:
//
//   for each pass, 32 or 64 of the packed rows:
//     stage them as [cout][output] in shared memory, residues interleaved, bias where an output has no taps
//     store the staged rows
//
// A lane has 4 positions, neighbours or 8 apart, of rows lane%4*2 and the next one, of every 8. Where rows of
// y are aligned well enough, each warp stages and stores its 32 positions by itself, and warps do not wait
// for each other. Else a warpgroup stages its 128, and vectors of a row's window are read as two staged ones,
// shifted: the window begins at the first output on a boundary of window_bytes and ends where the next half
// tile's begins, so that half tiles overlap by a few positions, and no sector of memory is written by two
// blocks. (H200, ms, alone and in windows: n64 ci128 co128 l65536 k3, rows aligned to 8 bytes, 1.32 and 1.31
// in tf32, to 4 bytes, 0.85 and 1.06 in bf16; n16 ci32 co64 l131072 k3 s2 d2, aligned to an element, 0.60 and
// 0.48, 0.53 and 0.28. Stores past the caches' order of use (.cs) took 1.5% more time in the first, 5% more
// on n32 ci32 co64 l131072 k5 d3, 3% less on the last; 8 loads before 8 stores, where each warp stores by
// itself, 2 to 14% more; the rest of a lane's vector by a shuffle from the next lane, not a second load, 6%
// more on the last.)
#pragma once

#include "cuda/sm90/direct_straight.cuh"
#include "cuda/sm90/direct_windows.cuh"
#include "cuda/sm90/multiply.cuh"
#include "cuda/sm90/repair.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// How a lane stages its outputs.
enum class Staging {
  run,    // stride 1: of neighbouring positions, 4 neighbours
  twice,  // stride 2: likewise 8, of both phases or every second one bias
  pairs,  // as many phases as the stride, which is even: 2 neighbours
  single  // any phases
};

template <class S>
class DirectOutput : StagedRows<S> {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sums = DirectSums<S>;
  static constexpr bool kHeld = kIsHeld<Mode>;
  static constexpr int kSize = sizeof(T), kVector = 16 / kSize, kOwn = S::kOwn;
  static constexpr bool kNeighbours = S::kApart == 1;

  __device__ DirectOutput(const Sm90Params& p, const Share& share, unsigned char* shared, int warp, int lane,
                          bool weights_marked)
      : StagedRows<S>(p, shared, warp, lane), share_(share), weights_marked_(weights_marked) {
    at_ = (p.windows ? warp_ * S::kWarpPositions : 0) + lane_ / 4 * (kNeighbours ? kOwn : 1);
    before_ = p.windows ? 0 : warp_ * S::kWarpPositions;
    rows_ = ptx::shared_address(shared + p.shared_table) + lane_ % 4 * 2 * sizeof(DirectRow);
  }

  __device__ void store(Sums& sums, int half_tile, bool marked, float unscale) {
    const int n = static_cast<int>(p_.half_tiles.divide(half_tile));
    if (n >= p_.samples) return;  // the odd one of a last pair
    const int half = half_tile - n * static_cast<int>(p_.half_tiles.value), place = half * p_.half_step;
    const int64_t first = (p_.first_u + place + before_) * p_.stride - p_.padding;
    T* y =
        static_cast<T*>(p_.output) + (int64_t{n} * p_.cout + int64_t{share_.group} * p_.cout_group) * p_.lout;
    if constexpr (kHeld) {
      if (__any_sync(0xffffffffu, marked) || weights_marked_) mark(n, place);
    }
    store_passes(sums, y, half, first, unscale);
    if constexpr (kHeld) return;
    if (!p_.ragged && !weights_marked_) return;
    sync();  // others store this thread's sums
    if (any_nan(sums)) repair(y, n, half, p_.first_u + place + before_, first);
  }

 private:
  // The second launch's tiles that the half tile at the sample's column `place` reaches into.
  __device__ void mark(int n, int place) const {
    int* marks = share_.marks(p_) + 2 * n * static_cast<int>(p_.sample_tiles.value);
    const int last =
        min((place + S::kHalfTile - 1) / S::kColumns, static_cast<int>(p_.sample_tiles.value) - 1);
    for (int tile = place / S::kColumns; tile <= last; ++tile) marks[2 * tile] = 1;
  }

  // Only what names sums is there for each pass: code that does not fit the instruction cache took a third of
  // the time.
  __device__ void store_passes(const Sums& sums, T* y, int half_tile, int64_t first, float unscale) const {
    const int row_block = share_.run * S::kRowBlocks;
    if constexpr (StraightOutput<S>::kAble) {
      const int cout = row_block * p_.block_couts;
      const uintptr_t row = reinterpret_cast<uintptr_t>(y + cout * p_.lout + first);
      const StraightOutput<S> straight(p_, rows_, lane_);
      if (straight.takes(row) && inside(first)) {
        straight.store(sums, row, p_.cout_group - cout, unscale);
        return;
      }
    }
    if constexpr (ShiftedWindows<S>::kAble) {
      const int cout = row_block * p_.block_couts;
      const uintptr_t row = reinterpret_cast<uintptr_t>(y + cout * p_.lout + first);
      const ShiftedWindows<S> windows(*this, rows_, at_);
      if (windows.takes(row, p_.cout_group - cout) && !at_ends(half_tile, first)) {
        windows.store(sums, row, unscale);
        return;
      }
    }
    const int halves = 2 * min(S::kRowBlocks, p_.row_blocks - row_block);
#pragma unroll 1
    for (int half = 0; half < halves; ++half) {
      stage_half(sums, half, unscale);
      const bool whole = p_.pass_rows == kSm90Rows;
      if (whole && half % 2 == 0) continue;
      const int before = whole ? 0 : half % 2 * p_.pass_couts, block = row_block + half / 2;
      const int cout = block * p_.block_couts + before;
      const int couts = min(min(p_.pass_couts, p_.block_couts - before), p_.cout_group - cout);
      sync();
      if (couts > 0) store_pass(y + cout * p_.lout + first, couts, half_tile, first);
      sync();
    }
  }

  // 32 packed rows.
  __device__ void stage_half(const Sums& sums, int half, float unscale) const {
    if (p_.stride == 1) {
      stage<Staging::run>(sums, half, unscale);
    } else if (p_.stride == 2) {
      stage<Staging::twice>(sums, half, unscale);
    } else if (p_.phases == p_.stride && p_.stride % 2 == 0) {
      stage<Staging::pairs>(sums, half, unscale);
    } else {
      stage<Staging::single>(sums, half, unscale);
    }
  }
  template <Staging How>
  __device__ void stage(const Sums& sums, int half, float unscale) const {
    // sums are registers, which have no index.
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
    DirectRow table[4][2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) table[j][e] = direct_row(rows_, Half * 32 + 8 * j + e);
    }
    const int step = p_.stride * kSize;
    const uint32_t to = staged_ + at_ * step;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const DirectRow &a = table[j][0], &b = table[j][1];
      const float a_scale = a.scale * unscale, b_scale = b.scale * unscale;
      T va[kOwn], vb[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        va[i] = direct_output<Mode>(direct_sum<S>(sums, Half * 4 + j, i, 0), a, a_scale);
        vb[i] = direct_output<Mode>(direct_sum<S>(sums, Half * 4 + j, i, 1), b, b_scale);
      }
      put<How>(to, step, a, va, b, vb);
    }
  }
  // A lane's outputs of two rows.
  template <Staging How>
  __device__ void put(uint32_t to, int step, const DirectRow& a, const T (&va)[kOwn], const DirectRow& b,
                      const T (&vb)[kOwn]) const {
    if constexpr (How == Staging::run) {
      put_run(to + a.at, va);
      put_run(to + b.at, vb);
    } else if constexpr (How == Staging::twice) {
      const T bias_a = rounded<T>(a.bias), bias_b = rounded<T>(b.bias);
      if constexpr (!kNeighbours) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const uint32_t at = to + i * S::kApart * step;
          put(at + a.at, va[i], p_.phases == 2 ? vb[i] : bias_a);
          if (p_.phases == 1) put(at + b.at, vb[i], bias_b);
        }
      } else if (p_.phases == 2) {
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
  __device__ void put_each(uint32_t to, const DirectRow& row, const T (&v)[kOwn]) const {
    const int step = S::kApart * p_.stride * kSize;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) put(to + i * step, v[i]);
    if (row.gap == 0) return;
    const T bias = rounded<T>(row.bias);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll 1
      for (int g = 1; g <= row.gap; ++g) put(to + i * step + g * kSize, bias);
    }
  }

  // The thread's own outputs that are NaN, of those that the half tile stored: others may not be stored yet.
  __device__ void repair(T* y, int n, int half_tile, int64_t u, int64_t first) const {
#pragma unroll 1
    for (int i = 0; i < S::kRowBlocks * 16 * kOwn; ++i) {
      const int place = i / (2 * kOwn), block = place / 8, row = place % 8 * 8 + lane_ % 4 * 2 + i % 2;
      const int row_block = share_.run * S::kRowBlocks + block, inner = row / p_.phases;
      const int cout = row_block * p_.block_couts + inner, column = at_ + i / 2 % kOwn * S::kApart;
      const int e = column * p_.stride + row % p_.phases * p_.dilation;
      T* to = y + cout * p_.lout + first;
      int window_from, window_to;
      window_of(to, half_tile, window_from, window_to);
      if (inner >= p_.block_couts || cout >= p_.cout_group || e < window_from || e >= window_to) continue;
      if (first + e < 0 || first + e >= p_.lout) continue;
      const float now = widen(to[e]);
      if (now == now) continue;
      const DirectRow r = direct_row(rows_, block * kSm90Rows + place % 8 * 8 + i % 2);
      to[e] = narrow<T>(sum_again<S>(p_, share_, row_block, row, n, u + column) + r.bias);
    }
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

  const Share& share_;
  bool weights_marked_;
  int at_, before_;  // the lane's first position among the staged ones; theirs in the half tile
  uint32_t rows_;
};

#endif

}  // namespace tconv::cuda::sm90
