// The kernels of cuda.sm90.dense, under the names that its plans use.
#pragma once

#include "cuda/sm90/gather_stages.cuh"
#include "cuda/sm90/pack.cuh"
#include "cuda/sm90/pack_stream.cuh"
#include "cuda/sm90/tma_stages.cuh"

namespace tconv::cuda::sm90 {

template <class Mode, int RowBlocks, int Group = 0>
void set_tma(Sm90Functions& f) {
  f.tma[RowBlocks - 1][Group] = kernel<TmaStages<TmaShape<Mode, RowBlocks, Group>>>;
  constexpr int kMost = Mode::kParts == 2 ? kSm90MaxSplitGroup : kSm90MaxTapGroup;
  if constexpr (Group < kMost) set_tma<Mode, RowBlocks, Group + 1>(f);
}

template <class Mode, int Tile = 0>
void set_gather(Sm90Functions& f) {
  constexpr Sm90Tile kTile = kSm90Tiles[Tile];
  // Split or scaled operands need the registers of 256 columns in a warpgroup for a second set of sums, or
  // for x on its way.
  if constexpr (kTile.n < 256 || (Mode::kParts == 1 && !kIsScaled<Mode>)) {
    using Shape = GatherShape<Mode, kTile.row_blocks, kTile.n>;
    f.gather[0][Tile] = kernel<GatherStages<Shape, false>>;
    f.gather[1][Tile] = kernel<GatherStages<Shape, true>>;
  }
  if constexpr (Tile + 1 < kSm90GatherTiles) set_gather<Mode, Tile + 1>(f);
}

template <class Mode>
Sm90Functions functions_of() {
  Sm90Functions f{};
  set_gather<Mode>(f);
  if constexpr (kIsScaled<Mode> || sizeof(typename Mode::T) == 2) {
    set_tma<Mode, 1>(f);
    set_tma<Mode, 2>(f);
  }
  if constexpr (!kIsScaled<Mode>) {
    f.pack = pack_kernel<Mode>;
    f.pack_stream = pack_stream_kernel<Mode>;
    if constexpr (kBothLayouts<Mode>) f.look = look_kernel<typename Mode::Word>;
  }
  return f;
}

}  // namespace tconv::cuda::sm90
