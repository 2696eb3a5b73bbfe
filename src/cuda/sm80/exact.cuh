// The way out for operands that two tf32 parts cannot hold.
//
// x = hi + lo keeps 23 bits down to 2^-112: below, lo falls under tf32's smallest subnormal (2^-136). And an
// infinite weight is all in its lo part, which meets no lo of x. Packing marks row tiles that hold a weight
// below 2^-100 or not finite, and a block marks a tile of columns that has seen such a small x. Outputs of
// marked tiles are computed again, by fused multiply-adds over x and w = hi + lo. That is slow, and rare:
// data that ordinary layers see (zeros included) mark nothing.
#pragma once

#include "cuda/sm80/store.cuh"

namespace tconv::cuda::sm80 {

template <class S>
class Exact {
 public:
  __device__ Exact(const Sm80Params& p, const Rows& rows, int first_slab, int end_slab)
      : p_(p), rows_(rows), first_slab_(first_slab), end_slab_(end_slab) {}

  // Whether packing marked any of the block's row tiles.
  __device__ bool weights_marked() const {
    bool any = false;
    for (int tile = rows_.first_tile; tile < rows_.end_tile; ++tile) any = any || marked(tile);
    return any;
  }

  // After the tile's sums are stored, and a barrier. all: not only the marked row tiles.
  __device__ void store_again(int tile, bool all) const {
    const int rows = (rows_.end_tile - rows_.first_tile) * 16;
    for (int i = threadIdx.x; i < rows * S::kColumns; i += S::kThreads) {
      const int row_tile = rows_.first_tile + i / (16 * S::kColumns), row = i / S::kColumns % 16;
      const int column = i % S::kColumns;
      if (!all && !marked(row_tile)) continue;
      if (p_.partial) {
        partial(row_tile, row, int64_t{tile} * S::kColumns + column);
      } else {
        output(row_tile, row, tile, column);
      }
    }
  }

 private:
  __device__ bool marked(int row_tile) const {
    const int64_t all = int64_t{p_.groups} * p_.row_tiles;
    const unsigned char* marks = static_cast<const unsigned char*>(p_.packed) + all * p_.row_tile_bytes;
    return marks[int64_t{rows_.group} * p_.row_tiles + row_tile] != 0;
  }

  __device__ void partial(int row_tile, int row, int64_t column) const {
    const int per_sample = p_.sample_columns;
    const int64_t n = column / per_sample, u = column - n * per_sample + p_.first_u;
    const int64_t rows = int64_t{p_.groups} * p_.row_tiles * 16;
    const int64_t at =
        int64_t{rows_.split} * rows + (int64_t{rows_.group} * p_.row_tiles + row_tile) * 16 + row;
    static_cast<float*>(p_.output)[at * p_.partial_columns + column] =
        n < p_.samples ? sum(row_tile, row, n, u) : 0;
  }

  __device__ void output(int row_tile, int row, int tile, int column) const {
    const int64_t n = p_.sample_tiles.divide(tile);
    const int64_t u = p_.first_u + (tile - n * p_.sample_tiles.value) * S::kColumns + column;
    const int cout = row_tile / p_.phases * 16 + row;
    const int64_t o = u * p_.stride + int64_t{row_tile % p_.phases} * p_.dilation - p_.padding;
    if (cout >= p_.cout_group || o < 0 || o >= p_.lout) return;
    const int64_t channel = int64_t{rows_.group} * p_.cout_group + cout;
    const float bias = p_.bias == nullptr ? 0 : __ldg(static_cast<const float*>(p_.bias) + channel);
    static_cast<float*>(p_.output)[(n * p_.cout + channel) * p_.lout + o] = sum(row_tile, row, n, u) + bias;
  }

  // The split's share of one output, in the order of the main loop.
  __device__ float sum(int row_tile, int row, int64_t n, int64_t u) const {
    const int taps = p_.taps - (row_tile % p_.phases < p_.last_phases ? 0 : 1);
    const float* x = static_cast<const float*>(p_.x) + n * p_.x_step[0] +
                     int64_t{rows_.group} * p_.cin_group * p_.x_step[1];
    const float* w =
        reinterpret_cast<const float*>(static_cast<const unsigned char*>(p_.packed) +
                                       (int64_t{rows_.group} * p_.row_tiles + row_tile) * p_.row_tile_bytes);
    constexpr int kStep = 2 * kSm80RowTileUnits * 4;  // floats of a step, both parts
    float sum = 0;
    for (int slab = first_slab_; slab < end_slab_; ++slab) {
      for (int j = 0; j < taps; ++j) {
        const int64_t position = u - int64_t{j} * p_.step;
        if (position < 0 || position >= p_.l) continue;
        const float* block = w + (int64_t{slab} * p_.taps + j) * kSm80Steps * kStep;
        const int channels = min(S::Mode::kSlab, p_.cin_group - slab * S::Mode::kSlab);
        for (int c = 0; c < channels; ++c) {
          const float* part = block + c / 8 * kStep + (row % 8 * 4 + c % 4) * 4 + row / 8 + c % 8 / 4 * 2;
          const float weight = part[0] + part[kStep / 2];
          sum = fmaf(__ldg(x + (int64_t{slab} * S::Mode::kSlab + c) * p_.x_step[1] + position), weight, sum);
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
