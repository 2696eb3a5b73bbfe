// The stages of cuda.sm80.weight: x and v on their way to shared memory.
#pragma once

#include "cuda/sm80/weight_modes.cuh"

namespace tconv::cuda::sm80::weight {

// A tile shape in one mode: Rw x Cw warps of Mi x Ni mma tiles (16 x 8).
template <class M, int Rw, int Cw, int Mi, int Ni, int MinBlocks>
struct Shape {
  using Mode = M;
  static constexpr int kWarpRows = Rw, kWarpColumns = Cw, kMi = Mi, kNi = Ni, kMinBlocks = MinBlocks;
  static constexpr int kWarps = Rw * Cw, kThreads = 32 * kWarps;
  static constexpr int kRows = 16 * Rw * Mi, kColumns = 8 * Cw * Ni;
};

// The part of the problem that a block of threads has.
struct Place {
  int group, row, cout, phase, tap;  // first of the tile: channels within the group
  int tile, split;
};

__device__ inline Place place_of(const WeightParams& p, int tile_rows) {
  Place at;
  int rest = blockIdx.x;
  at.tile = rest % p.tiles;
  at.split = rest / p.tiles;
  rest = at.tile;
  at.row = rest % p.row_tiles * tile_rows;
  rest /= p.row_tiles;
  at.tap = rest % p.tap_blocks * p.block_taps;
  rest /= p.tap_blocks;
  at.phase = rest % p.phase_blocks * p.block_phases;
  rest /= p.phase_blocks;
  at.cout = rest % p.cout_blocks * p.block_couts;
  at.group = rest / p.cout_blocks;
  return at;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Sixteen bytes to shared memory, of which `bytes` are read and the others are zeros.
__device__ inline void copy_async16(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy_async4(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy_async8(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void store_shared2(uint32_t to, uint32_t v) {
  asm volatile("st.shared.u16 [%0], %1;\n" ::"r"(to), "h"(static_cast<uint16_t>(v)) : "memory");
}
__device__ inline void store_shared4(uint32_t to, uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;\n" ::"r"(to), "r"(v) : "memory");
}

// Sample and first position of a piece; no sample beyond the last.
struct Piece {
  int64_t n, i;
  bool there;
  __device__ Piece(const WeightParams& p, int64_t index) {
    there = index < p.pieces;
    const auto q = static_cast<uint32_t>(there ? index : 0);
    const uint32_t sample = p.by_sample.divide(q);
    n = sample;
    i = static_cast<int64_t>(q - sample * p.by_sample.value) * p.piece;
  }
};

template <class S>
class RowsOfX {
 public:
  using T = typename S::Mode::T;
  static constexpr int kElement = sizeof(T);

  __device__ RowsOfX(const WeightParams& p, const Place& at)
      : p_(p),
        x_(static_cast<const T*>(p.x) + (int64_t{at.group} * p.cin_group + at.row) * p.x_step[1]),
        rows_(min(S::kRows, p.cin_group - at.row)) {}

  // Channels beyond the last keep whatever is there: their sums are no one's.
  __device__ void copy(int64_t stage, uint32_t to) const {
    if (p_.copy == WeightCopy::vectors) {
      copy_units<16 / kElement>(stage, to);
    } else if (p_.copy == WeightCopy::words || kElement > 2) {
      copy_units<kElement == 2 ? 2 : 1>(stage, to);
    } else {
      copy_elements(stage, to);
    }
  }

 private:
  // The positions of a stage are a power of two, so that a thread keeps its own.
  template <int Unit>
  __device__ void copy_units(int64_t stage, uint32_t to) const {
    const int shift = p_.piece_shift + p_.pieces_shift - log2_of(Unit);
    const int unit = threadIdx.x & (1 << shift) - 1, position = unit * Unit;
    const Piece piece(p_, (stage << p_.pieces_shift) + (position >> p_.piece_shift));
    const int64_t i = piece.i + (position & p_.piece - 1);
    const int64_t inside = piece.there ? min(int64_t{Unit}, max(int64_t{0}, p_.l - i)) : 0;
    const int bytes = static_cast<int>(inside) * kElement;
    const T* from = x_ + (inside > 0 ? piece.n * p_.x_step[0] + i * p_.x_step[2] : 0);
    const int row_step = S::kThreads >> shift;
    const int row = static_cast<int>(threadIdx.x) >> shift;
    from += row * p_.x_step[1];
    to += row * p_.x_pitch + position * kElement;
    const int64_t next = row_step * p_.x_step[1];
#pragma unroll 4
    for (int r = row; r < rows_; r += row_step) {
      if constexpr (Unit * kElement == 16) {
        copy_async16(to, from, bytes);
      } else if constexpr (Unit * kElement == 8) {
        copy_async8(to, from, bytes);
      } else {
        copy_async4(to, from, bytes);
      }
      from += next;
      to += row_step * p_.x_pitch;
    }
  }

  __device__ void copy_elements(int64_t stage, uint32_t to) const {
    const int shift = p_.piece_shift + p_.pieces_shift;
    const int position = threadIdx.x & (1 << shift) - 1;
    const Piece piece(p_, (stage << p_.pieces_shift) + (position >> p_.piece_shift));
    const int64_t i = piece.i + (position & p_.piece - 1);
    const bool inside = piece.there && i < p_.l;
    const auto* from = reinterpret_cast<const unsigned short*>(x_) +
                       (inside ? piece.n * p_.x_step[0] + i * p_.x_step[2] : 0);
    const int row_step = S::kThreads >> shift, row = static_cast<int>(threadIdx.x) >> shift;
    from += row * p_.x_step[1];
    to += row * p_.x_pitch + position * kElement;
    const int64_t next = row_step * p_.x_step[1];
    constexpr int kAtOnce = 8;
    for (int r = row; r < rows_; r += kAtOnce * row_step) {
      uint32_t held[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        held[j] = inside && r + j * row_step < rows_ ? __ldg(from + j * next) : 0u;
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (r + j * row_step < rows_) store_shared2(to + j * row_step * p_.x_pitch, held[j]);
      }
      from += kAtOnce * next;
      to += kAtOnce * row_step * p_.x_pitch;
    }
  }

  __device__ static constexpr int log2_of(int v) {
    return v == 1 ? 0 : 1 + log2_of(v / 2);
  }

  const WeightParams& p_;
  const T* x_;
  int rows_;
};

// Rows (cout, phase) of v. A line is a piece of one cout, in which phases lie side by side, as they do in dy.
// A warp copies 32 items of a line, the same ones of every cout that is its own: what an item is takes long
// to find out, and only the place changes from cout to cout.
template <class S>
class RowsOfV {
 public:
  using T = typename S::Mode::T;
  static constexpr int kElement = sizeof(T);
  static constexpr bool kPairs = kElement == 2;  // an item is two neighbours of one row of v
  static constexpr int kHeld = kWeightHeld;      // couts of a chunk

  __device__ RowsOfV(const WeightParams& p, const Place& at)
      : p_(p),
        y_(static_cast<const T*>(p.y) + (int64_t{at.group} * p.cout_group + at.cout) * p.y_step[1]),
        couts_(min(p.block_couts, p.cout_group - at.cout)),
        phases_(min(p.block_phases, p.phases - at.phase)),
        origin_(int64_t{at.tap} * p.step * p.stride + int64_t{at.phase} * p.dilation - p.padding) {}

  // Queues copies of all of it.
  __device__ void copy(int64_t stage, uint32_t to) const {
    static_assert(!kPairs);
    const int all = p_.turns << p_.pieces_shift, step = S::kWarps >> p_.cout_shift;
    const int cout = first_cout(), cout_step = 1 << p_.cout_shift;
    for (int turn = threadIdx.x / 32 >> p_.cout_shift; turn < all; turn += step) {
      const Item item = item_of(stage, turn);
      if (!item.there) continue;
      const bool inside = item.in_sample && static_cast<uint64_t>(item.o) < static_cast<uint64_t>(p_.lout);
      const T* from = (inside ? item.sample + item.o * p_.y_step[2] : y_) + cout * p_.y_step[1];
      const int64_t next = cout_step * p_.y_step[1];
      const int bytes = inside ? kElement : 0, to_next = cout_step * p_.block_phases * p_.y_pitch;
      uint32_t place = to + item.to + cout * p_.block_phases * p_.y_pitch;
#pragma unroll 4
      for (int c = cout; c < couts_; c += cout_step) {
        if constexpr (kElement == 8) {
          copy_async8(place, from, bytes);
        } else {
          copy_async4(place, from, bytes);
        }
        from += next;
        place += to_next;
      }
    }
  }

  // The same through registers, chunk by chunk: between load and store there is time to multiply.
  __device__ void load(int64_t stage, int chunk) {
    const int turn =
        chunk / p_.cout_chunks * (S::kWarps >> p_.cout_shift) + (threadIdx.x / 32 >> p_.cout_shift);
    const int cout_step = 1 << p_.cout_shift;
    cout_ = first_cout() + chunk % p_.cout_chunks * kHeld * cout_step;
    there_ = false;
    if (turn >= p_.turns << p_.pieces_shift) return;
    const Item item = item_of(stage, turn);
    if (!item.there) return;
    there_ = true;
    begins_ = item.u == 0;
    to_ = item.to + cout_ * p_.block_phases * p_.y_pitch;
    const auto inside = [&](int64_t o) {
      return item.in_sample && static_cast<uint64_t>(o) < static_cast<uint64_t>(p_.lout);
    };
    const bool first = inside(item.o), second = inside(item.o + p_.stride);
    const int64_t next = cout_step * p_.y_step[1];
    const auto* from =
        reinterpret_cast<const unsigned short*>(item.sample) + cout_ * p_.y_step[1] + item.o * p_.y_step[2];
    const int64_t behind = p_.stride * p_.y_step[2];
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const bool exists = cout_ + h * cout_step < couts_;
      held_[h][0] = exists && first ? __ldg(from + h * next) : 0u;
      held_[h][1] = exists && second ? __ldg(from + h * next + behind) : 0u;
    }
  }
  __device__ void store(uint32_t to) const {
    if (!there_) return;
    const int cout_step = 1 << p_.cout_shift, next = cout_step * p_.block_phases * p_.y_pitch;
    uint32_t place = to + to_;
    const bool twice = p_.block_taps > 1;  // the copy that is one position earlier
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      if (cout_ + h * cout_step >= couts_) break;
      store_shared4(place, held_[h][0] | held_[h][1] << 16);
      if (twice) {
        if (!begins_) store_shared2(place + p_.y_bytes - 2, held_[h][0]);
        store_shared2(place + p_.y_bytes, held_[h][1]);
      }
      place += next;
    }
  }

 private:
  struct Item {
    const T* sample;  // the first cout's row
    int64_t o;        // of the item's first element
    int to;           // bytes, in the first cout's rows
    int u;
    bool in_sample;  // else it is zeros
    bool there;      // else it is no item
  };

  __device__ int first_cout() const {
    return threadIdx.x / 32 & (1 << p_.cout_shift) - 1;
  }

  __device__ Item item_of(int64_t stage, int turn) const {
    const int index = turn & (1 << p_.pieces_shift) - 1;
    const int m = (turn >> p_.pieces_shift) * 32 + threadIdx.x % 32;
    const int u = static_cast<int>(p_.by_phases.divide(m)), phase = m - u * p_.block_phases;
    const Piece piece(p_, (stage << p_.pieces_shift) + index);
    Item item;
    item.u = kPairs ? 2 * u : u;
    item.in_sample = piece.there;
    item.there = item.u < p_.width && phase < phases_;
    item.sample = y_ + piece.n * p_.y_step[0];
    item.o = (piece.i + item.u) * p_.stride + int64_t{phase} * p_.dilation + origin_;
    item.to = phase * p_.y_pitch + (index * p_.piece_pitch + item.u) * kElement;
    return item;
  }

  const WeightParams& p_;
  const T* y_;
  int couts_, phases_;
  int64_t origin_;
  uint32_t held_[kPairs ? kHeld : 1][2];
  int cout_ = 0, to_ = 0;
  bool there_ = false, begins_ = false;
};

#endif

}  // namespace tconv::cuda::sm80::weight
