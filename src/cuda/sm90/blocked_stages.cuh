// The stages of cuda.sm90.blocked (blocked.hpp): those of the gathered way, except for the source of x.
#pragma once

#include "cuda/sm90/blocking.cuh"
#include "cuda/sm90/kernel.cuh"
#include "cuda/sm90/product_gathered.cuh"
#include "cuda/sm90/source_packed.cuh"
#include "cuda/sm90/writer_gathered.cuh"

namespace tconv::cuda::sm90 {

// The shape of kernels on channel blocks, whoever makes the blocks.
template <class M, int RowBlocks, int N>
struct ChannelBlockShape : GatherShape<M, RowBlocks, N> {
  static constexpr int kWide = N;
  static constexpr bool kMayStay = !kIsScaled<M>;  // slots_of_all() in blocked_main_plan.cpp
  // Two blocks share an SM if their sums leave enough registers: one stores while the other multiplies. All
  // of their threads then have the same number of registers.
  static constexpr int kBlocksOfSm = sm90_blocks_of_sm(N), kThreads = sm90_blocked_threads(N);
  static constexpr Sm90Storing kStoring = sm90_blocked_storing(N);
  static constexpr int kConsumer = kBlocksOfSm == 2 ? 0 : 224, kProducer = kBlocksOfSm == 2 ? 0 : 56;
};

template <class M, int RowBlocks, int N>
struct BlockedShape : ChannelBlockShape<M, RowBlocks, N> {
  static constexpr bool kFromBlocks = true, kMayLackTaps = true;
};

// float32 held in float16. In two parts, sums take the registers of two blocks.
template <class M, int RowBlocks, int N>
struct ScaledShape : BlockedShape<M, RowBlocks, N> {
  using Params = Sm90ScaledParams;
  static constexpr int kBlocksOfSm = sm90_blocks_of_sm(N, M::kParts),
                       kThreads = sm90_blocked_threads(N, M::kParts);
  static constexpr Sm90Storing kStoring = sm90_blocked_storing(N, M::kParts);
  static constexpr int kMost = M::kParts == 2 ? 232 : 224;
  static constexpr int kConsumer = kBlocksOfSm == 2 ? 0 : kMost,
                       kProducer = kBlocksOfSm == 2 ? 0 : 504 - 2 * kMost;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Fills stages of x by bulk copies, one for each channel block of each part, which a single lane issues.
template <class S>
class BlockSource {
 public:
  using Params = typename S::Params;

  __device__ BlockSource(const Params& p, const Block& block, unsigned char* shared)
      : p_(p), block_(block), to_(ptx::shared_address(shared)) {}

  __device__ void run(const Rings<S>& rings) const {
    const int64_t step = p_.sizes.x_step[1] * 16;
    const unsigned char* from = static_cast<const unsigned char*>(p_.operands.x) +
                                int64_t{block_.group} * p_.grid.slabs * kSm90Blocks * step;
    const Sweeps<S> sweeps(p_);
    RingPlace stage;
    for (ColumnTiles tiles(p_, block_); tiles.there(p_); tiles.next(p_, block_)) {
      const unsigned char* row = from + (first_unit(tiles.tile) - p_.source.halo) * 16;
      for (int sweep = sweeps.of_tile(p_, block_, tiles); sweep > 0; --sweep) {
        bring_rows(rings, row, stage);
        if constexpr (kScaledBlocks<S>) row += S::Mode::kParts * p_.part_units * 16;  // tails
      }
    }
  }

 private:
  // From the tile's row of the first channel block.
  __device__ void bring_rows(const Rings<S>& rings, const unsigned char* row, RingPlace& stage) const {
    const uint32_t bytes = p_.source.width * 16;
    const int64_t step = p_.sizes.x_step[1] * 16;
    for (int slab = block_.first_slab; slab < block_.end_slab; ++slab) {
      for (int group = 0; group < p_.source.tap_groups; ++group) {
        const unsigned char* at = row + int64_t{slab} * kSm90Blocks * step -
                                  int64_t{p_.sizes.step} * group * p_.source.tap_group * 16;
        const uint32_t full = rings.full(0, stage.at), to = to_ + stage.at * p_.source.stage_bytes;
        ptx::barrier_wait(rings.empty(0, stage.at), stage.parity ^ 1);
        ptx::barrier_arrive_expect(full, S::Mode::kParts * kSm90Blocks * bytes);
#pragma unroll
        for (int b = 0; b < kSm90Blocks; ++b) {
          ptx::bulk_load(to + b * p_.source.pitch * 16, at + b * step, bytes, full);
        }
        if constexpr (S::Mode::kParts == 2) {
#pragma unroll
          for (int b = 0; b < kSm90Blocks; ++b) {
            ptx::bulk_load(to + (kSm90Blocks + b) * p_.source.pitch * 16, at + p_.part_units * 16 + b * step,
                           bytes, full);
          }
        }
        stage.advance(p_.source.stages);
      }
    }
  }

  // The unit of a tile's first column.
  __device__ int64_t first_unit(int tile) const {
    if (p_.columns.folded) return int64_t{tile} * S::kColumns;
    const int n = static_cast<int>(p_.columns.sample_tiles.divide(tile));
    return n * p_.sizes.x_step[0] +
           int64_t{tile - n * static_cast<int>(p_.columns.sample_tiles.value)} * S::kColumns;
  }

  const Params& p_;
  const Block& block_;
  uint32_t to_;
};

#endif

// What stages of channel blocks have in common. Lines: rows of y are stored line by line.
template <class S, class P, bool Lines>
struct ChannelBlockStages {
  using Shape = S;
  using Params = P;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Product = GatheredProduct<S>;
  using Writer = GatheredWriter<S, Lines>;

  __device__ static Arrivals arrivals(const P&) {
    return {1, kSm90Consumers / 32, 1, kSm90Consumers / 32};
  }
  __device__ static bool idle(const P&, const Block&) {
    return false;
  }
  __device__ static void prepare_rows(const P& p, const Block& block, unsigned char* shared) {
    Writer::prepare_rows(p, block, shared);
  }
#endif
};

template <class S, bool Lines, class P = Sm90GatherParams>
struct BlockedStages : ChannelBlockStages<S, P, Lines> {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Params = P;

  __device__ static void prepare(const Params&, unsigned char*) {}
  __device__ static void bring(const Params& p, const Block& block, const Rings<S>& rings,
                               unsigned char* shared, int warp) {
    if (warp > 1 || !ptx::elect_one()) return;
    if (warp == 0) {
      BlockSource<S>(p, block, shared).run(rings);
    } else {
      PackedSource<S, ColumnTiles>::run(p, block, shared, rings);
    }
  }
#endif
};

template <class Mode, int Tile = 0>
void set_blocked(Sm90BlockedFunctions& f) {
  constexpr Sm90Tile kTile = kSm90Tiles[Tile];
  using Shape = BlockedShape<Mode, kTile.row_blocks, kTile.n>;
  f.tiles[0][Tile] = kernel<BlockedStages<Shape, false>>;
  f.tiles[1][Tile] = kernel<BlockedStages<Shape, true>>;
  if constexpr (Tile + 1 < kSm90GatherTiles) set_blocked<Mode, Tile + 1>(f);
}

template <class Mode>
Sm90BlockedFunctions blocked_functions_of() {
  Sm90BlockedFunctions f{};
  set_blocked<Mode>(f);
  f.blocking[0] = blocking_kernel<Mode, 1>;
  f.blocking[1] = blocking_kernel<Mode, 2>;
  f.blocking[2] = blocking_kernel<Mode, 4>;
  if constexpr (Mode::kUnit == 8) f.blocking[3] = blocking_kernel<Mode, 8>;
  return f;
}

template <class Mode, int Tile = 0>
void set_scaled(Sm90ScaledFunctions& f) {
  constexpr Sm90Tile kTile = kSm90Tiles[Tile];
  if constexpr (Mode::kParts == 1 || kTile.n < 256) {
    using Shape = ScaledShape<Mode, kTile.row_blocks, kTile.n>;
    f.tiles[0][Tile] = kernel<BlockedStages<Shape, false, Sm90ScaledParams>>;
    f.tiles[1][Tile] = kernel<BlockedStages<Shape, true, Sm90ScaledParams>>;
  }
  if constexpr (Tile + 1 < kSm90GatherTiles) set_scaled<Mode, Tile + 1>(f);
}

template <class Mode>
Sm90ScaledFunctions scaled_functions_of() {
  Sm90ScaledFunctions f{};
  set_scaled<Mode>(f);
  f.blocking[0] = blocking_kernel<Mode, 1>;
  f.blocking[1] = blocking_kernel<Mode, 2>;
  f.blocking[2] = blocking_kernel<Mode, 4>;
  f.blocking[3] = f.blocking[2];  // no load has more than 16 bytes
  f.again[0] = blocking_again_kernel<Mode, 1>;
  f.again[1] = blocking_again_kernel<Mode, 2>;
  f.again[2] = f.again[3] = blocking_again_kernel<Mode, 4>;
  f.look[0] = blocked_look_kernel<Sm90LookWay::any>;
  f.look[1] = blocked_look_kernel<Sm90LookWay::together>;
  f.look[2] = blocked_look_kernel<Sm90LookWay::vectors>;
  return f;
}

}  // namespace tconv::cuda::sm90
