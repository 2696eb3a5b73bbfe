// RegisterWriter: outputs from the registers of wgmma straight to y, if a lane has 4 neighbouring positions
// and rows of y are aligned well enough (Sm90TileWriter::straight). No shared memory, no waiting:
//
//   for each 8 packed rows, of which a lane has rows 2t and 2t + 1, t = lane%4:
//     stride 1:      4 outputs of a row
//     stride 2 to 8: 8 outputs of a cout, which lanes trade until a store of the warp fills whole sectors
//
// Rows whose outputs begin somewhere inside a vector are late: a lane's vectors then hold its later outputs
// and the next lane's first ones. With strides of 2 and more, rows are accepted if they begin half a stride
// before a vector, as they do if the padding is half the stride: the first half of a position's phases goes
// with the second half of the position before. Late float32 rows of stride 1 are left out: half of a warp's
// 128 bytes would be pieces of sectors.
#pragma once

#include "cuda/sm90/staged_rows.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Two lanes trade whose numbers differ in the bit Lane: the one without it holds (a, b), the other one (c,
// d); they end with (a, c) and (b, d).
template <int Lane, int N>
__device__ inline void trade(uint32_t (&first)[N], uint32_t (&second)[N], bool has_bit) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, has_bit ? first[i] : second[i], Lane);
    first[i] = has_bit ? got : first[i];
    second[i] = has_bit ? second[i] : got;
  }
}

template <class S>
class RegisterWriter {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sums = TileSums<S>;
  static constexpr bool kAble = S::kApart == 1 && S::kOwn == 4;

  // rows: shared address of the lane's first packed row.
  __device__ RegisterWriter(const Sm90TmaParams& p, uint32_t rows, int lane)
      : p_(p), rows_(rows), group_(lane / 4), turn_(lane % 4), step_(p.sizes.lout * kSize) {}

  // Whether rows like the one at this address can be stored this way.
  __device__ bool takes(uintptr_t row) const {
    if (p_.writer.straight == 0) return false;
    if (p_.writer.straight == 1) return row % (kSize == 4 ? 16 : 4) == 0;
    return row % 16 == 0 || is_late(row);
  }

  // row: of the run's first cout, from the warp's first output on.
  __device__ void store(const Sums& sums, uintptr_t row, int couts, float unscale) const {
    if (p_.writer.straight == 2) {
      store_phases<2>(sums, row, couts, unscale);
    } else if (p_.writer.straight == 4) {
      store_phases<4>(sums, row, couts, unscale);
    } else if (p_.writer.straight == 8) {
      store_phases<8>(sums, row, couts, unscale);
    } else if constexpr (kSize == 4) {
      store_rows<false, false>(sums, row, couts, unscale);
    } else {
      const bool even = row % kUnit != 0, odd = (row + step_) % kUnit != 0;
      if (even && odd) {
        store_rows<true, true>(sums, row, couts, unscale);
      } else if (even) {
        store_rows<true, false>(sums, row, couts, unscale);
      } else if (odd) {
        store_rows<false, true>(sums, row, couts, unscale);
      } else {
        store_rows<false, false>(sums, row, couts, unscale);
      }
    }
  }

 private:
  static constexpr int kSize = sizeof(T), kUnit = 4 * kSize;  // bytes of a lane's outputs of a row
  static constexpr int kWords = kUnit / 4, kHalf = kWords / 2, kGroups = 8 * S::kRowBlocks;

  // Half a stride before a vector.
  __device__ bool is_late(uintptr_t row) const { return (row + p_.writer.straight / 2 * kSize) % 16 == 0; }

  // Late: for even rows, for odd ones, which begin half a unit before one.
  template <bool Even, bool Odd>
  __device__ void store_rows(const Sums& sums, uintptr_t row, int couts, float unscale) const {
    uintptr_t to = row + 2 * turn_ * step_ + group_ * kUnit;
    const int left = couts - 2 * turn_;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      T v[4];
      tile_outputs<S>(sums, rows_, j, 0, unscale, v);
      store_row<Even>(to, v, left > 8 * j);
      tile_outputs<S>(sums, rows_, j, 1, unscale, v);
      store_row<Odd>(to + step_, v, left > 8 * j + 1);
      to += 8 * step_;
    }
  }
  template <bool Late>
  __device__ void store_row(uintptr_t to, const T (&v)[4], bool there) const {
    uint32_t w[kWords + kHalf];
    words(v, w);
    if constexpr (Late) {
#pragma unroll
      for (int i = 0; i < kHalf; ++i) w[kWords + i] = next_group(w[i]);
      if (!there) return;
      if (group_ == 0) put<kUnit / 2>(to, w);
      to += kUnit / 2;
      if (group_ == 7) {
        put<kUnit / 2>(to, w + kHalf);
      } else {
        put<kUnit>(to, w + kHalf);
      }
    } else {
      if (there) put<kUnit>(to, w);
    }
  }
  template <class V>
  __device__ static V next_group(V v) {
    return __shfl_down_sync(0xffffffffu, v, 4);
  }
  __device__ static void words(const T (&v)[4], uint32_t* w) {
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      w[i] = kSize == 4 ? element_bits(v[i]) : element_pair(v[2 * i], v[2 * i + 1]);
  }
  // Stores this many bytes; `to` is a multiple of the largest power of two in them.
  template <int Bytes>
  __device__ static void put(uintptr_t to, const uint32_t* w) {
    if constexpr (Bytes >= 16) {
      ptx::store_global16(to, {w[0], w[1], w[2], w[3]});
    } else if constexpr (Bytes >= 8) {
      ptx::store_global8(to, {w[0], w[1]});
      put<Bytes - 8>(to + 8, w + 2);
    } else if constexpr (Bytes >= 4) {
      ptx::store_global4(to, w[0]);
      put<Bytes - 4>(to + 4, w + 1);
    } else if constexpr (Bytes == 2) {
      ptx::store_global2(to, w[0]);
    }
  }

  // As many phases as the stride.
  template <int Stride>
  __device__ void store_phases(const Sums& sums, uintptr_t row, int couts, float unscale) const {
    if (Stride / 2 * kSize == 16 || row % 16 == 0) {
      store_phases<Stride, false>(sums, row, couts, unscale);
    } else if constexpr (Stride / 2 * kSize < 16) {
      store_phases<Stride, true>(sums, row, couts, unscale);
    }
  }
  template <int Stride, bool Late>
  __device__ void store_phases(const Sums& sums, uintptr_t row, int couts, float unscale) const {
    uintptr_t to = row + 2 * turn_ / Stride * step_ + place<Stride>();
    int left = couts - 2 * turn_ / Stride;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      T a[4], b[4];
      tile_outputs<S>(sums, rows_, j, 0, unscale, a);
      tile_outputs<S>(sums, rows_, j, 1, unscale, b);
      store_pairs<Stride, Late>(to, a, b, left > 0);
      to += 8 / Stride * step_;
      left -= 8 / Stride;
    }
  }
  // Bytes from the warp's first output of a row to the lane's first one, once lanes have traded.
  template <int Stride>
  __device__ int place() const {
    if constexpr (kSize == 2) {
      return 8 * Stride * group_ + (Stride == 2 ? 0 : turn_ % (Stride / 2) * 16);
    } else if constexpr (Stride == 2) {
      return group_ / 2 * 64 + group_ % 2 * 16;
    } else if constexpr (Stride == 4) {
      return 64 * group_ + turn_ % 2 * 16;
    } else {
      return 128 * group_ + turn_ % 2 * 32 + turn_ / 2 * 16;
    }
  }
  // A position's outputs; late ones: the second phase's, and the first one's of the position after.
  template <bool Late>
  __device__ static void make_pair(uint32_t (&v)[kSize / 2], const T (&a)[4], const T (&b)[4], int i) {
    T one = a[i], other = b[i];
    if constexpr (Late) {
      one = b[i];
      other = a[(i + 1) % 4];
      if (i == 3) other = next_group(a[0]);
    }
    if constexpr (kSize == 4) {
      v[0] = element_bits(one), v[1] = element_bits(other);
    } else {
      v[0] = element_pair(one, other);
    }
  }
  // Lanes with the first half of the phases have the position after.
  template <int N>
  __device__ static void shift(uint32_t (&v)[4][N], bool first_half) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const uint32_t next = next_group(v[0][k]);
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i][k] = first_half ? (i < 3 ? v[i + 1][k] : next) : v[i][k];
    }
  }
  // What comes before the first vector of a late row.
  template <int Stride>
  __device__ static void put_head(uintptr_t to, const T (&a)[4], const T (&b)[4], bool first_half) {
    uint32_t w[2] = {element_bits(a[0]), element_bits(b[0])};
    if constexpr (kSize == 2) w[0] = element_pair(a[0], b[0]);
    if constexpr (Stride == 2) {
      put<kSize>(to, w);
    } else {
      if (first_half) put<2 * kSize>(to, w);
    }
  }
  // Lanes trade pairs to complete vectors. Late: the lane with the second half of the phases has the first
  // half of a vector.
  template <int Stride, bool Late>
  __device__ void gather(uint32_t (&v)[4][kSize / 2], uint32_t (&low)[4], uint32_t (&high)[4]) const {
    const bool odd = turn_ % 2 != 0;
    if constexpr (kSize == 4 && Stride == 2) {
      // The lane's 32 bytes are a whole sector, in two stores of a pair of lanes.
#pragma unroll
      for (int i = 0; i < 4; ++i) low[i] = v[i / 2][i % 2], high[i] = v[2 + i / 2][i % 2];
      trade<4>(low, high, group_ % 2 != 0);
    } else if constexpr (kSize == 4) {
      // Of positions 0 and 2, or 1 and 3, with the phases of the lane beside it.
      trade<1>(v[0], v[1], odd);
      trade<1>(v[2], v[3], odd);
      constexpr int kFirst = Late ? 1 : 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        low[i] = v[i / 2 ^ kFirst][i % 2], high[i] = v[2 + (i / 2 ^ kFirst)][i % 2];
      }
    } else if constexpr (Stride == 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) low[i] = v[i][0];
    } else if constexpr (Stride == 4) {
      trade<1>(v[0], v[2], odd);  // positions 0 and 1, or 2 and 3
      trade<1>(v[1], v[3], odd);
      constexpr int kFirst = Late ? 2 : 0;
      low[0] = v[kFirst][0], low[1] = v[2 - kFirst][0], low[2] = v[1 + kFirst][0], low[3] = v[3 - kFirst][0];
    } else {
      trade<1>(v[0], v[1], odd);  // position 0 or 1, and 2 or 3
      trade<1>(v[2], v[3], odd);
      uint32_t one[2] = {v[0][0], v[1][0]}, other[2] = {v[2][0], v[3][0]};
      trade<2>(one, other, turn_ / 2 != 0);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        low[i] = Late ? other[i] : one[i];
        low[2 + i] = Late ? one[i] : other[i];
      }
    }
  }
  // a, b: outputs of two phases at 4 positions. to: where the lane's first vector would be if rows were not
  // late.
  template <int Stride, bool Late>
  __device__ void store_pairs(uintptr_t to, const T (&a)[4], const T (&b)[4], bool there) const {
    constexpr int kPair = kSize / 2;  // words
    constexpr int kLate = Late ? Stride / 2 * kSize : 0;
    uint32_t v[4][kPair];
#pragma unroll
    for (int i = 0; i < 4; ++i) make_pair<Stride == 2 && Late>(v[i], a, b, i);
    const bool first_half = 2 * turn_ % Stride < Stride / 2;
    if constexpr (Late) {
      if (group_ == 0 && there)
        put_head<Stride>(to - place<Stride>() + 2 * turn_ % Stride * kSize, a, b, first_half);
      if constexpr (Stride > 2) shift(v, first_half);
      to += kLate;
    }
    uint32_t low[4], high[4];  // vectors; of 16-bit types one
    gather<Stride, Late>(v, low, high);
    if (!there) return;
    const bool last = Late && group_ == 7 && (Stride == 2 || turn_ % (Stride / 2) == Stride / 2 - 1);
    if constexpr (kSize == 4) {
      put<16>(to, low);
      to += Stride == 8 ? 64 : 32;
    }
    const uint32_t* rest = kSize == 4 ? high : low;
    if (last) {
      put<16 - kLate>(to, rest);
    } else {
      put<16>(to, rest);
    }
  }

  const Sm90TmaParams& p_;
  uint32_t rows_;
  int group_, turn_;
  int64_t step_;  // bytes from a cout's row to the next
};

#endif

}  // namespace tconv::cuda::sm90
