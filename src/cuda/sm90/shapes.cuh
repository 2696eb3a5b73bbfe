// Numbers of a kernel's tile, for each way x takes.
#pragma once

#include "cuda/device/prologue.cuh"
#include "cuda/sm90/arithmetic.cuh"

namespace tconv::cuda::sm90 {

// x gathered: each of two warpgroups has one row block and N columns.
template <class M, int RowBlocks, int N>
struct GatherShape {
  using Mode = M;
  using Params = Sm90GatherParams;
  using Activation = epilogue::Identity;
  using Prologue = epilogue::NoPrologue;
  static constexpr int kRowBlocks = RowBlocks, kN = N;
  static constexpr int kColumns = N * 2 / RowBlocks;
  static constexpr int kWide = N < 128 ? N : 128;  // columns of a wgmma
  static constexpr int kWarpgroups = 2, kRings = 1;
  static constexpr bool kMaySkew = true;
  static constexpr int kConsumers = kSm90Consumers, kThreads = kSm90Threads;
  static constexpr int kSlotBytes = RowBlocks * Mode::kParts * kSm90PartBytes;
  // Registers of a thread that multiplies, and of one that loads: 512 threads have 128 each to begin with.
  static constexpr int kConsumer = N == 256 ? 176 : Mode::kParts == 2 ? 168 : 136;
  static constexpr int kProducer = 256 - kConsumer;
};

// x by tensor copies: each warpgroup has its tile's positions of all row blocks. Group: taps whose operands
// share a lane's registers; 0: any taps, operands in shared memory. A shape each, because ptxas has wgmma
// take turns where the loops of several are in one kernel.
template <class M, int RowBlocks, int Group>
struct TmaShape {
  using Mode = M;
  using Params = Sm90TmaParams;
  using Activation = epilogue::Identity;
  using Prologue = epilogue::NoPrologue;
  static constexpr int kGroup = Group;
  static constexpr int kRowBlocks = RowBlocks;
  static constexpr bool kSplit = Mode::kParts == 2, kMaySkew = false;
  static constexpr Sm90WarpgroupTile kTile =
      sm90_warpgroup_tile(RowBlocks, Group, Mode::kParts, sizeof(typename Mode::T));
  static constexpr int kOwn = kTile.own, kWarpPositions = kTile.warp_positions();
  static constexpr int kPositions = kTile.positions(), kWarpgroups = kTile.warpgroups, kRings = kWarpgroups;
  static constexpr int kChannels = kTile.channels;
  static constexpr int kApart = Group == 0 ? 8 : 1;    // positions from one of a lane's to the next
  static constexpr int kReaders = Group == 0 ? 2 : 4;  // warps that read a stage
  static constexpr int kFirst = Group == 0 ? 2 : 1;    // stages that tell the tile: of all warps
  static constexpr int kColumns = kSm90MarkedColumns;  // of a tile that is marked
  static constexpr int kThreads = 128 * (kWarpgroups + 1), kConsumers = 128 * kWarpgroups;
  // Registers of a thread that multiplies, and of another: 384 threads have 168 each to begin with, 512 128.
  static constexpr bool kMost = Group == 4 && RowBlocks == 2 && sizeof(typename Mode::T) == 4;
  static constexpr int kConsumer = kWarpgroups == 3 ? 160 : kMost ? 240 : 232;
  static constexpr int kProducer = kWarpgroups == 3 ? 32 : kMost ? 24 : 40;
};

}  // namespace tconv::cuda::sm90
