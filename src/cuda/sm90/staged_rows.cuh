// How staged outputs of some couts get to y.
#pragma once

#include "cuda/sm90/rows.cuh"
#include "cuda/sm90/tile_sums.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Bits of outputs that are already rounded; every store of one uses these, which make its NaN canonical.
template <class T>
__device__ inline uint32_t element_bits(T v) {
  if constexpr (sizeof(T) == 4) return __float_as_uint(canonical(v));
  if constexpr (sizeof(T) == 2) return canonical_pair<T>(*reinterpret_cast<const uint16_t*>(&v));
}

// Two 16-bit elements in a word.
template <class T>
__device__ inline uint32_t element_pair(T low, T high) {
  const uint32_t bits = *reinterpret_cast<const uint16_t*>(&low);
  return canonical_pair<T>(bits | static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(&high)) << 16);
}

// What becomes of a lane's sums of a packed row, before NaN is made canonical; rows: the lane's first one.
template <class S>
__device__ inline void tile_outputs(const TileSums<S>& sums, uint32_t rows, int group, int e, float unscale,
                                    typename S::Mode::T (&v)[S::kOwn]) {
  const auto epilogue = epilogue_of<S>(load_row(rows, 8 * group + e), unscale);
#pragma unroll
  for (int i = 0; i < S::kOwn; ++i) {
    v[i] = rounded<typename S::Mode::T>(epilogue.value(tile_sum<S>(sums, group, i, e)));
  }
}

// Staged outputs of some couts, [cout][output] in shared memory, and how they get to y: those of a warp's 32
// positions, or of a warpgroup's 128 (Sm90Params::windows).
template <class S>
class StagedRows {
 protected:
  using T = typename S::Mode::T;
  static constexpr int kSize = sizeof(T), kVector = 16 / kSize;

  __device__ StagedRows(const Sm90TmaParams& p, unsigned char* shared, int warp, int lane)
      : p_(p), warpgroup_(warp / 4), lane_(lane), warp_(warp % 4) {
    staged_ = ptx::shared_address(shared + p.writer.shared) +
              (p.writer.windows ? warp / 4 : warp) * p.writer.staged_bytes;
  }

  // Of the threads whose sums are staged together.
  __device__ void sync() const {
    if (p_.writer.windows) {
      sync_warpgroup(warpgroup_);
    } else {
      __syncwarp();
    }
  }

  // Bytes from output `first` of a row of y to its window, which begins a multiple of window_bytes after the
  // beginning of y: so which of two tiles stores an output does not depend on y's address. (Operands in two
  // parts may differ in their last bits by a tile's scale.)
  __device__ int before_window(uintptr_t row) const {
    const auto begin = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p_.operands.output));
    return static_cast<int>((begin - static_cast<uint32_t>(row)) &
                            static_cast<uint32_t>(p_.writer.window_bytes - 1));
  }
  // Whether windows begin on vectors.
  __device__ bool has_vectors() const { return reinterpret_cast<uintptr_t>(p_.operands.output) % 16 == 0; }

  // Whether all that is staged of the rows, from output `first` on, exists.
  __device__ bool inside(int64_t first) const {
    return first >= 0 && first + p_.writer.row_outputs <= p_.sizes.lout;
  }

  // Whether a tile's rows do not end like all others: some do not exist, or windows have no neighbour.
  __device__ bool at_ends(int tile, int64_t first) const {
    const bool at_end = tile == 0 || tile == static_cast<int>(p_.tiles.per_sample.value) - 1;
    return !inside(first) || (p_.writer.windows && at_end);
  }

  // Staged rows of some couts, from y's output `first` on.
  __device__ void store_pass(T* y, int couts, int tile, int64_t first) const {
    if (at_ends(tile, first) || (p_.writer.windows && !has_vectors())) {
      store_ends(y, couts, tile, first);
    } else if (p_.writer.windows) {
      store_windows(y, couts);
    } else {
      store_rows(y, couts);
    }
  }

  // As many bytes for each lane as all rows are aligned to.
  __device__ void store_rows(T* y, int couts) const {
    const uint32_t odd = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(y) | p_.sizes.lout * kSize);
    if (odd % 16 == 0) {
      store_rows<16>(y, couts);
    } else if (odd % 8 == 0) {
      store_rows<8>(y, couts);
    } else if (kSize == 4 || odd % 4 == 0) {
      store_rows<4>(y, couts);
    } else {
      store_rows<kSize>(y, couts);
    }
  }
  // Rows with fewer lanes than a warp are processed side by side.
  template <int Bytes>
  __device__ void store_rows(T* y, int couts) const {
    const int lanes = p_.writer.row_outputs * kSize / Bytes, row_bytes = p_.writer.row_pitch * kSize;
    const int64_t step = p_.sizes.lout * kSize;
    if (lanes <= 32 && (lanes & (lanes - 1)) == 0) {
      const int shift = __ffs(lanes) - 1, aside = 32 >> shift;
      const int row = lane_ >> shift, at = (lane_ & (lanes - 1)) * Bytes;
      copy<Bytes>(reinterpret_cast<uintptr_t>(y) + row * step + at, staged_ + row * row_bytes + at,
                  (couts - row + aside - 1) >> (5 - shift), aside * step, aside * row_bytes);
      return;
    }
    uintptr_t to = reinterpret_cast<uintptr_t>(y) + lane_ * Bytes;
    uint32_t from = staged_ + lane_ * Bytes;
    for (int row = 0; row < couts; ++row) {
      copy<Bytes>(to, from, (lanes - lane_ + 31) / 32, 32 * Bytes, 32 * Bytes);
      to += step;
      from += row_bytes;
    }
  }
  template <int Bytes>
  __device__ static void copy(uintptr_t to, uint32_t from, int count, int64_t to_step, int from_step) {
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      if constexpr (Bytes == 16) ptx::store_global16(to, ptx::load_shared16(from));
      if constexpr (Bytes == 8) ptx::store_global8(to, ptx::load_shared8(from));
      if constexpr (Bytes == 4) ptx::store_global4(to, ptx::load_shared4(from));
      if constexpr (Bytes == 2) ptx::store_global2(to, ptx::load_shared2(from));
      to += to_step;
      from += from_step;
    }
  }

  __device__ void store_windows(T* y, int couts) const {
    // Couts whose windows lie alike, except for whole vectors, are a vector's elements apart: a warp takes
    // those.
#pragma unroll 1
    for (int cout = warp_; cout < min(couts, kVector); cout += 4) {
      const uintptr_t row = reinterpret_cast<uintptr_t>(y + cout * p_.sizes.lout);
      const uint32_t from = staged_ + cout * p_.writer.row_pitch * kSize;
      const int rows = (couts - cout + kVector - 1) / kVector;
      switch (before_window(row) % 16 / kSize) {
        case 0:
          store_window<0>(row, from, rows);
          break;
        case 1:
          store_window<1>(row, from, rows);
          break;
        case 2:
          store_window<2>(row, from, rows);
          break;
        case 3:
          store_window<3>(row, from, rows);
          break;
        case 4:
          store_window<4>(row, from, rows);
          break;
        case 5:
          store_window<5>(row, from, rows);
          break;
        case 6:
          store_window<6>(row, from, rows);
          break;
        default:
          store_window<7>(row, from, rows);
      }
    }
  }
  // Skip: elements of a staged vector before those of the window.
  template <int Skip>
  __device__ void store_window(uintptr_t row, uint32_t from, int rows) const {
    if constexpr (Skip < kVector) {
      const int64_t step = p_.sizes.lout * 16;
      const int from_step = p_.writer.row_pitch * 16, vectors = p_.writer.row_vectors;
      from += lane_ * 16;
      if (vectors <= 32) {
        // Two rows side by side where they are short.
        const int aside = vectors <= 16 ? 2 : 1, turn = aside == 2 ? lane_ / 16 : 0, at = lane_ - 16 * turn;
        if (at >= vectors) return;
        row += turn * step;
        from += turn * (from_step - 256);
#pragma unroll 4
        for (int i = turn; i < rows; i += aside) {
          const int before = before_window(row);
          store_vector<Skip>(row + before + at * 16, from + before);
          row += aside * step;
          from += aside * from_step;
        }
        return;
      }
#pragma unroll 1
      for (int i = 0; i < rows; ++i) {
        const int before = before_window(row);
        uintptr_t to = row + before + lane_ * 16;
        uint32_t at = from + before;
#pragma unroll 4
        for (int v = lane_; v < vectors; v += 32) {
          store_vector<Skip>(to, at);
          to += 512;
          at += 512;
        }
        row += step;
        from += from_step;
      }
    }
  }
  template <int Skip>
  __device__ static void store_vector(uintptr_t to, uint32_t from) {
    if constexpr (Skip == 0) {
      ptx::store_global16(to, ptx::load_shared16(from));
    } else {
      from -= Skip * kSize;
      ptx::store_global16(to, splice<Skip * kSize>(ptx::load_shared16(from), ptx::load_shared16(from + 16)));
    }
  }
  // 16 bytes, without the first Bytes of low.
  template <int Bytes>
  __device__ static uint4 splice(const uint4& low, const uint4& high) {
    const uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    constexpr int kFirst = Bytes / 4;
    uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[i] = Bytes % 4 == 0 ? w[kFirst + i] : __byte_perm(w[kFirst + i], w[kFirst + i + 1], 0x5432);
    }
    return {v[0], v[1], v[2], v[3]};
  }

  // For a window in a sample's first or last tile: also what lies before the first window, and after the last
  // one.
  __device__ void window_of(const T* row, int tile, int& from, int& to) const {
    from = 0;
    to = p_.writer.row_outputs;
    if (!p_.writer.windows) return;
    const int window = before_window(reinterpret_cast<uintptr_t>(row)) / kSize;
    if (tile > 0) from = window;
    if (tile < static_cast<int>(p_.tiles.per_sample.value) - 1) to = window + p_.tiles.step * p_.sizes.stride;
  }
  // At a sample's ends, any alignment: vectors of y, of which two may exist in part. Short rows side by side.
  __device__ void store_ends(T* y, int couts, int tile, int64_t first) const {
    // Vectors that a row has outputs in.
    const int most = (p_.writer.row_outputs + 2 * kVector - 2) / kVector;
    const int log_lanes = most > 16 ? 5 : 32 - __clz(most - 1), aside = 32 >> log_lanes;
    const int own = lane_ & ((1 << log_lanes) - 1);
    const int64_t begin = -first, end = p_.sizes.lout - first;
#pragma unroll 1
    for (int cout = (p_.writer.windows ? warp_ : 0) * aside + (lane_ >> log_lanes); cout < couts;
         cout += (p_.writer.windows ? 4 : 1) * aside) {
      T* const row = y + cout * p_.sizes.lout;
      int from, to;
      window_of(row, tile, from, to);
      from = begin > from ? static_cast<int>(begin) : from;
      to = end < to ? static_cast<int>(end) : to;
      const int late = static_cast<int>(reinterpret_cast<uintptr_t>(row + from) % 16 / kSize);
      const uint32_t staged = staged_ + cout * p_.writer.row_pitch * kSize,
                     last = staged + (p_.writer.row_pitch * kSize - 16) / 16 * 16;
#pragma unroll 1
      for (int e = from - late + own * kVector; e < to; e += kVector << log_lanes) {
        const uint4 v = staged_vector(staged + e * kSize, last);
        if (e >= from && e + kVector <= to) {
          ptx::store_global16(reinterpret_cast<uintptr_t>(row + e), v);
        } else {
          store_some(reinterpret_cast<uintptr_t>(row + e), v, from - e, to - e);
        }
      }
    }
  }
  // Elements [from, to) of a vector.
  __device__ static void store_some(uintptr_t row, const uint4& v, int from, int to) {
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < from || i >= to) continue;
      if constexpr (kSize == 4) ptx::store_global4(row + 4 * i, w[i]);
      if constexpr (kSize == 2) ptx::store_global2(row + 2 * i, w[i / 2] >> i % 2 * 16);
    }
  }
  // 16 bytes from any element on, of a row whose last vector is `last`.
  __device__ static uint4 staged_vector(uint32_t at, uint32_t last) {
    const uint32_t begin = at & ~15u;
    const uint4 low = ptx::load_shared16(begin), high = ptx::load_shared16(min(begin + 16, last));
    const bool two = (at & 8) != 0, one = (at & 4) != 0;
    const uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint32_t by_two[6], by_one[5];
#pragma unroll
    for (int i = 0; i < 6; ++i) by_two[i] = two ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) by_one[i] = one ? by_two[i + 1] : by_two[i];
    if constexpr (kSize == 4) return {by_one[0], by_one[1], by_one[2], by_one[3]};
    const uint32_t bits = at % 4 * 8;
    return {__funnelshift_r(by_one[0], by_one[1], bits), __funnelshift_r(by_one[1], by_one[2], bits),
            __funnelshift_r(by_one[2], by_one[3], bits), __funnelshift_r(by_one[3], by_one[4], bits)};
  }

  const Sm90TmaParams& p_;
  int warpgroup_, lane_, warp_;  // warp_: of the warpgroup
  uint32_t staged_;
};

#endif

}  // namespace tconv::cuda::sm90
