// Recomputes, by fused multiply-adds over what exists, the outputs that the tensor cores cannot compute.
//
// Split float32: x = hi + lo keeps 23 bits down to 2^-112; below that, lo falls under tf32's smallest
// subnormal (2^-136). And an infinite weight is entirely in lo, which meets no lo of x. Packing marks row
// tiles with a weight below 2^-100 or not finite, and a block marks a tile of columns in which it has seen
// such a small x. All outputs of marked tiles are computed again.
//
// All others: a position outside x is a zero in shared memory. It is no product, but an infinite weight makes
// NaN of it. Zero times infinity gives nothing else, so in a tile at an edge of x the outputs that are NaN
// are computed again.
//
// This is slow, and rare: the data of ordinary layers (zeros included) mark nothing and make no NaN. A sum
// ends at its first NaN, so that data that are NaN throughout cost one term for each output.
#pragma once

#include "cuda/sm80/store.cuh"

namespace tconv::cuda::sm80 {

enum class Again { all, marked_rows, nan };

template <class S>
class Exact {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;

  __device__ Exact(const Sm80Params& p, const Rows& rows, int first_slab, int end_slab)
      : p_(p), rows_(rows), first_slab_(first_slab), end_slab_(end_slab) {}

  // Whether packing marked any of the block's row tiles.
  __device__ bool weights_marked() const {
    bool any = false;
    for (int tile = rows_.first_tile; tile < rows_.end_tile; ++tile) any = any || marked(tile);
    return any;
  }

  // Whether a tile of columns reaches beyond x, at its ends or between folded samples.
  __device__ bool at_edge(int tile) const {
    // In planes, too, some zeros are no products: outside dy, and where a phase lacks the last tap.
    if (p_.folded || p_.deep.phases > 0) return true;
    const int turn = tile - static_cast<int>(p_.sample_tiles.divide(tile) * p_.sample_tiles.value);
    const int64_t first = p_.first_u + int64_t{turn} * S::kColumns;
    return first < int64_t{p_.taps - 1} * p_.step || first + S::kColumns > p_.l;
  }

  // After the tile's sums are stored, and after a barrier.
  __device__ void store_again(int tile, Again which) const {
    const int rows = (rows_.end_tile - rows_.first_tile) * 16;
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * S::kColumns; i += S::kThreads) {
      const int row_tile = rows_.first_tile + i / (16 * S::kColumns), row = i / S::kColumns % 16;
      const int column = i % S::kColumns;
      if (which == Again::marked_rows && !marked(row_tile)) continue;
      if (p_.partial) {
        partial(row_tile, row, int64_t{tile} * S::kColumns + column, which);
      } else {
        output(row_tile, row, tile, column, which);
      }
    }
  }

 private:
  __device__ bool marked(int row_tile) const {
    const int64_t all = int64_t{p_.groups} * p_.row_tiles;
    const unsigned char* marks = static_cast<const unsigned char*>(p_.packed) + all * p_.row_tile_bytes;
    return marks[int64_t{rows_.group} * p_.row_tiles + row_tile] != 0;
  }

  template <class V>
  __device__ static bool is_right(const V* stored, Again which) {
    const Sum now = widen(*stored);
    return which == Again::nan && now == now;
  }

  __device__ void partial(int row_tile, int row, int64_t column, Again which) const {
    const int per_sample = p_.sample_columns;
    const int64_t n = column / per_sample, u = column - n * per_sample + p_.first_u;
    const int64_t rows = int64_t{p_.groups} * p_.row_tiles * 16;
    const int64_t at =
        int64_t{rows_.split} * rows + (int64_t{rows_.group} * p_.row_tiles + row_tile) * 16 + row;
    Sum* to = static_cast<Sum*>(p_.output) + at * p_.partial_columns + column;
    if (is_right(to, which) || row_tile / p_.phases * 16 + row >= p_.cout_group) return;
    *to = n < p_.samples ? sum(row_tile, row, n, u) : Sum(0);
  }

  __device__ void output(int row_tile, int row, int tile, int column, Again which) const {
    const int64_t n = p_.sample_tiles.divide(tile);
    const int64_t u = p_.first_u + (tile - n * p_.sample_tiles.value) * S::kColumns + column;
    const int cout = row_tile / p_.phases * 16 + row;
    const int64_t o = u * p_.stride + int64_t{row_tile % p_.phases} * p_.dilation - p_.padding;
    if (cout >= p_.cout_group || o < 0 || o >= p_.lout) return;
    const int64_t channel = int64_t{rows_.group} * p_.cout_group + cout;
    T* to = static_cast<T*>(p_.output) + (n * p_.cout + channel) * p_.lout + o;
    if (is_right(to, which)) return;
    *to = epilogue_of_sums<T>(p_.bias, channel)(sum(row_tile, row, n, u));
  }

  // A weight as packing left it, for channel `channel` of a slab (dense.hpp has the order).
  __device__ static Sum weight(const unsigned char* block, int row, int channel) {
    constexpr int kPart = kSm80RowTileUnits * kSm80UnitBytes, kStep = Mode::kParts * kPart;
    const LaneRegister at = WeightFragment<Mode::kUnit>::holder({row, channel % Mode::kDepth});
    const unsigned char* unit = block + channel / Mode::kDepth * kStep + at.lane * kSm80UnitBytes;
    Sum w = widen(reinterpret_cast<const T*>(unit)[at.index]);
    if constexpr (Mode::kParts == 2) w += reinterpret_cast<const T*>(unit + kPart)[at.index];
    return w;
  }

  // The split's share of one output, in the order of the main loop.
  __device__ Sum sum(int row_tile, int row, int64_t n, int64_t u) const {
    const int taps = p_.taps - (row_tile % p_.phases < p_.last_phases ? 0 : 1);
    const T* x =
        static_cast<const T*>(p_.x) + n * p_.x_step[0] + int64_t{rows_.group} * p_.cin_group * p_.x_step[1];
    const unsigned char* w = static_cast<const unsigned char*>(p_.packed) +
                             (int64_t{rows_.group} * p_.row_tiles + row_tile) * p_.row_tile_bytes;
    constexpr int kBlock = kSm80Steps * Mode::kParts * kSm80RowTileUnits * kSm80UnitBytes;
    Sum sum = 0;
#pragma unroll 1
    for (int slab = first_slab_; slab < end_slab_ && sum == sum; ++slab) {
      const int channels = min(Mode::kSlab, p_.cin_group - slab * Mode::kSlab);
#pragma unroll 1
      for (int j = 0; j < taps && sum == sum; ++j) {
        const int64_t position = u - int64_t{j} * p_.step;
        if (position < 0 || position >= p_.l) continue;
        const unsigned char* block = w + (int64_t{slab} * p_.taps + j) * kBlock;
#pragma unroll 1
        for (int c = 0; c < channels && sum == sum; ++c) {
          if (!p_.deep.has(slab * Mode::kSlab + c, j, position)) continue;
          Sum operand = widen(__ldg(x + (int64_t{slab} * Mode::kSlab + c) * p_.x_step[1] + position));
          if constexpr (std::is_same_v<Mode, Tf32>) {
            operand = __uint_as_float(to_tf32(__float_as_uint(operand)));
          }
          sum = fma(operand, weight(block, row, c), sum);
        }
      }
    }
    return sum;
  }

  const Sm80Params& p_;
  const Rows& rows_;
  int first_slab_, end_slab_;
};

}  // namespace tconv::cuda::sm80
