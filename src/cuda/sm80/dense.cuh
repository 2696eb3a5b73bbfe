// The kernel of cuda.sm80.dense; dense.hpp has its loop nest and layouts.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm80/exact.cuh"

namespace tconv::cuda::sm80 {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// The block's weight blocks: for each of its row tiles, one tap of one slab.
template <class S>
class Weights {
 public:
  using Mode = typename S::Mode;
  static constexpr int kTileBytes = kSm80Steps * Mode::kParts * kSm80RowTileUnits * kSm80UnitBytes;
  static constexpr int kSlotBytes = S::kRowTiles * kTileBytes;

  __device__ Weights(const Sm80Params& p, const Rows& rows, int first_slab, unsigned char* shared)
      : p_(p),
        tiles_(rows.end_tile - rows.first_tile),
        shared_(ptx::shared_address(shared + p.shared_weights)) {
    const int64_t tile = int64_t{rows.group} * p.row_tiles + rows.first_tile;
    from_ = static_cast<const unsigned char*>(p.packed) + tile * p_.row_tile_bytes +
            int64_t{first_slab} * p.taps * kTileBytes;
  }

  // Block `index` of the split's slabs and taps goes to slot `slot`.
  __device__ void copy(int index, int slot) const {
    constexpr int kTileUnits = kTileBytes / kSm80UnitBytes;
    const unsigned char* from = from_ + int64_t{index} * kTileBytes;
#pragma unroll
    for (int i = 0; i < S::kRowTiles * kTileUnits; i += S::kThreads) {
      const int unit = i + threadIdx.x, tile = unit / kTileUnits;
      if (tile < tiles_) {
        ptx::copy_async16(shared_ + slot * kSlotBytes + unit * kSm80UnitBytes,
                          from + tile * p_.row_tile_bytes + unit % kTileUnits * kSm80UnitBytes);
      }
    }
  }

 private:
  const Sm80Params& p_;
  int tiles_;
  uint32_t shared_;
  const unsigned char* from_;
};

// One weight block times the x stage: acc += A * B(shifted). active: bit i, whether row tile i takes part.
template <class S>
__device__ inline void multiply_block(typename S::Mode::Sum (&sums)[S::kMi][S::kNi][4],
                                      const unsigned char* weights, uint32_t x, int x_pitch, int steps,
                                      uint32_t active) {
  using Mode = typename S::Mode;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < kSm80Steps; ++step) {
    if (step >= steps) break;
    uint4 a[S::kMi][Mode::kParts];
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
      for (int q = 0; q < Mode::kParts; ++q) {
        const int unit = ((i * kSm80Steps + step) * Mode::kParts + q) * kSm80RowTileUnits + lane;
        a[i][q] = *reinterpret_cast<const uint4*>(weights + unit * kSm80UnitBytes);
      }
    }
    // Fewer column tiles at a time if the fragments of all of them would take too many registers.
    constexpr bool kTight = Mode::kUnit == 8 && S::kMinBlocks == 3;
    constexpr int kAtOnce = Mode::kParts == 2 ? 2 : kTight ? S::kNi / 2 : S::kNi;
#pragma unroll
    for (int j0 = 0; j0 < S::kNi; j0 += kAtOnce) {
      uint2 b[kAtOnce][Mode::kParts];
#pragma unroll
      for (int q = 0; q < Mode::kParts; ++q) {
        const uint32_t at =
            x + (q * kSm80Blocks + 2 * step) * x_pitch * kSm80UnitBytes + j0 * 8 * kSm80UnitBytes;
#pragma unroll
        for (int j = 0; j < kAtOnce; j += 2) {
          if constexpr (std::is_same_v<Mode, F64>) {
            // One double for each lane and tile: channel lane%4 of the step, position lane/4.
#pragma unroll
            for (int k = 0; k < 2; ++k) {
              b[j + k][q] = ptx::load_shared8(at + (j + k) * 8 * kSm80UnitBytes);
            }
          } else {
            const uint4 m = ptx::load_matrices(at + j * 8 * kSm80UnitBytes);
            b[j][q] = {m.x, m.y};
            b[j + 1][q] = {m.z, m.w};
          }
        }
      }
#pragma unroll
      for (int i = 0; i < S::kMi; ++i) {
        if (active >> i & 1) {
#pragma unroll
          for (int j = 0; j < kAtOnce; ++j) multiply<Mode>(sums[i][j0 + j], a[i], b[j]);
        }
      }
    }
  }
}

template <class S>
__device__ inline bool has_nan(const typename S::Mode::Sum (&sums)[S::kMi][S::kNi][4]) {
  bool nan = false;
#pragma unroll
  for (int i = 0; i < S::kMi; ++i) nan = nan | any_nan(sums[i]);
  return nan;
}

// Byte offset of a lane's fragment of x: ldmatrix takes (channel block 0, 1) x (positions 0..7, 8..15).
template <class S>
__device__ inline uint32_t lane_offset(int x_pitch) {
  const int lane = threadIdx.x % 32, column = threadIdx.x / 32 % S::kWarpColumns * 8 * S::kNi;
  if constexpr (std::is_same_v<typename S::Mode, F64>) {
    return (lane % 4 / 2 * x_pitch + column + lane / 4) * kSm80UnitBytes + lane % 2 * 8;
  } else {
    return (lane / 8 % 2 * x_pitch + column + lane / 16 * 8 + lane % 8) * kSm80UnitBytes;
  }
}

#endif

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kMinBlocks)
    dense_kernel(const __grid_constant__ Sm80Params p) {
  wait_for_launch_before();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using Mode = typename S::Mode;
  extern __shared__ __align__(128) unsigned char shared[];

  // Which rows and which slabs. Neighbouring blocks walk along the columns side by side.
  int place = blockIdx.x;
  const int walker = place % p.walkers;
  place /= p.walkers;
  const int row_block = place % p.row_blocks;
  place /= p.row_blocks;
  const int first_tile = row_block * S::kRowTiles;
  const Rows rows{place % p.groups, first_tile, min(first_tile + S::kRowTiles, p.row_tiles),
                  place / p.groups};
  const int first_slab = static_cast<int>(int64_t{p.slabs} * rows.split / p.splits);
  const int end_slab = static_cast<int>(int64_t{p.slabs} * (rows.split + 1) / p.splits);
  if (walker >= p.column_tiles) return;

  // Row tiles of this warp that exist, and which of them have a phase with the last tap.
  const int warp_row = threadIdx.x / 32 / S::kWarpColumns;
  uint32_t all = 0, last = 0;
#pragma unroll
  for (int i = 0; i < S::kMi; ++i) {
    const int tile = rows.first_tile + warp_row * S::kMi + i;
    if (tile < rows.end_tile) {
      all |= 1u << i;
      if (tile % p.phases < p.last_phases) last |= 1u << i;
    }
  }

  Input<S> input(p, rows.group);
  const Weights<S> weights(p, rows, first_slab, shared);
  Output<S> output(p, rows, shared);
  const int blocks = (end_slab - first_slab) * p.taps;
  const int stage_bytes = Mode::kParts * kSm80Blocks * p.x_pitch * kSm80UnitBytes;

  // The first weights and the first x stage.
  const int ahead = p.resident ? blocks : S::kSlots - 1;
  for (int b = 0; b < ahead; ++b) {
    weights.copy(b % blocks, b);  // a tile with fewer blocks begins again
    if (!p.resident) ptx::copy_async_commit();
  }
  if (p.resident) ptx::copy_async_commit();
  output.prepare();
  Cursor now{walker, first_slab, 0};
  Cursor next = now;
  input.aim(next);
  next.advance(p, first_slab, end_slab);
  if (next.tile < p.column_tiles) input.prefetch(next);
  input.load_columns();
  input.store_columns(shared, false);
  input.load_halo();
  input.store_halo(shared, false);
  input.aim(next);
  if (p.resident) ptx::copy_async_wait<0>();

  typename Mode::Sum sums[S::kMi][S::kNi][4] = {};
  const uint32_t lane_x = ptx::shared_address(shared) + lane_offset<S>(p.x_pitch);
  const unsigned char* warp_weights = shared + p.shared_weights + warp_row * S::kMi * Weights<S>::kTileBytes;
  constexpr bool kSplit = Mode::kParts == 2;
  const bool marked = kSplit && Exact<S>(p, rows, first_slab, end_slab).weights_marked();
  int stage = 0, slot = 0, fetch = ahead % blocks, fetch_slot = S::kSlots - 1;
  while (true) {
    // One x stage: the taps of a group.
    const int first_tap = now.group * p.tap_group, taps = min(p.tap_group, p.taps - first_tap);
    const int steps =
        min(kSm80Steps, (p.cin_group - now.slab * Mode::kSlab + Mode::kDepth - 1) / Mode::kDepth);
    const bool more = next.tile < p.column_tiles;
    const bool ahead = next.tile != now.tile;
    unsigned char* next_stage = shared + (stage ^ 1) * stage_bytes;
    // During all taps but the last, the columns of the next stage are on their way; then its halo.
    const int columns_there = p.halo == 0 ? 0 : taps - 2;
    for (int i = 0; i < taps; ++i) {
      if (!p.resident) ptx::copy_async_wait<S::kSlots - 2>();
      if (!p.resident || i == 0) __syncthreads();
      if (!p.resident) {
        // Into the slot that was multiplied before the barrier. After the last tile the copy is not needed.
        weights.copy(fetch, fetch_slot);
        ptx::copy_async_commit();
        fetch = fetch + 1 == blocks ? 0 : fetch + 1;
        fetch_slot = fetch_slot + 1 == S::kSlots ? 0 : fetch_slot + 1;
      }
      if (more && i == 0) input.load_columns();
      if (more && i > columns_there) input.load_halo();
      const uint32_t shift = p.step * (p.tap_group - 1 - i);
      multiply_block<S>(sums, warp_weights + slot * Weights<S>::kSlotBytes,
                        lane_x + stage * stage_bytes + shift * kSm80UnitBytes, p.x_pitch, steps,
                        first_tap + i == p.taps - 1 ? last : all);
      if (more && i == columns_there) input.store_columns(next_stage, ahead);
      if (more && i > columns_there) input.store_halo(next_stage, ahead);
      ++slot;
      if (slot == (p.resident ? blocks : S::kSlots)) slot = 0;
    }
    stage ^= 1;
    if (next.tile != now.tile) {  // the last stage of a tile of columns
      const Exact<S> exact(p, rows, first_slab, end_slab);
      // With split operands, an infinity is in one part only, which meets the zeros around x as it should,
      // but not the zeros of planes.
      const bool edge = kSplit ? p.deep.phases > 0 : exact.at_edge(now.tile);
      const bool nan = edge && has_nan<S>(sums);
      if (p.partial) {
        output.store_partial(sums, now.tile);
      } else {
        output.store(sums, now.tile);
      }
      if constexpr (kSplit) {
        const bool small = __syncthreads_or(input.take_small());
        const bool any_nan = edge && __syncthreads_or(nan);
        if (small || marked) exact.store_again(now.tile, small ? Again::all : Again::marked_rows);
        if (any_nan && !small) exact.store_again(now.tile, Again::nan);
      } else {
        if (edge && __syncthreads_or(nan)) exact.store_again(now.tile, Again::nan);
      }
      if (!more) break;
#pragma unroll
      for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
        for (int j = 0; j < S::kNi; ++j) {
#pragma unroll
          for (int k = 0; k < 4; ++k) sums[i][j][k] = 0;
        }
      }
    }
    now = next;
    next.advance(p, first_slab, end_slab);
    if (next.tile < p.column_tiles) input.aim(next);
    Cursor later = next;
    later.advance(p, first_slab, end_slab);
    if (later.tile < p.column_tiles) input.prefetch(later);
  }
  ptx::copy_async_wait<0>();
#endif
}

}  // namespace tconv::cuda::sm80
