// The compile-time numbers of a kernel's tile: one shape for each way that x reaches the tensor cores.
#pragma once

#include "cuda/device/prologue.cuh"
#include "cuda/sm90/arithmetic.cuh"

namespace tconv::cuda::sm90 {

// Whether x lies in channel blocks (blocked.hpp), rounded.
template <class S>
concept FromBlocks = requires {
  S::kFromBlocks;
};
// Whether those hold float32 in float16 (blocked_scale.cuh). Otherwise, where float16 holds float32, tiles
// that it cannot hold are marked for a second launch.
template <class S>
inline constexpr bool kScaledBlocks = FromBlocks<S>&& kIsScaled<typename S::Mode>;
template <class S>
inline constexpr bool kMarksTiles = kIsScaled<typename S::Mode> && !FromBlocks<S>;

// x is gathered. Two warpgroups multiply; each computes one row block and N columns.
template <class M, int RowBlocks, int N>
struct GatherShape {
  using Mode = M;
  using Params = Sm90GatherParams;
  using Activation = epilogue::Identity;
  using Prologue = epilogue::NoPrologue;
  static constexpr int kRowBlocks = RowBlocks, kN = N;
  static constexpr int kColumns = N * 2 / RowBlocks;
  static constexpr int kWide = N < 128 ? N : 128;  // columns of one wgmma
  static constexpr int kWarpgroups = 2, kRings = 1, kBlocksOfSm = 1;
  static constexpr bool kMaySkew = true, kMayLackTaps = false, kMayStay = false;
  static constexpr Sm90Storing kStoring = sm90_dense_storing(Mode::kParts);
  static constexpr int kConsumers = kSm90Consumers, kThreads = kSm90Threads;
  static constexpr int kSlotBytes = RowBlocks * Mode::kParts * kSm90PartBytes;
  // Registers of a thread that multiplies and of one that loads. All 512 threads start with 128.
  // Warps that load hold twice as many channels of float32 in float16.
  static constexpr int kSplit = kIsScaled<Mode> ? 160 : 168;
  static constexpr int kConsumer = N == 256 ? 176 : Mode::kParts == 2 ? kSplit : 136;
  static constexpr int kProducer = 256 - kConsumer;
};

// x comes by tensor copies. Each warpgroup computes its tile's positions for all row blocks. Group is the
// number of taps whose operands share a lane's registers; with 0, taps are arbitrary and operands lie in
// shared memory. Each group has a shape, and so a kernel, of its own: ptxas serialises wgmma if one kernel
// holds the loops of several groups.
template <class M, int RowBlocks, int Group>
struct TmaShape {
  using Mode = M;
  using Params = Sm90TmaParams;
  using Activation = epilogue::Identity;
  using Prologue = epilogue::NoPrologue;
  static constexpr int kGroup = Group;
  static constexpr int kRowBlocks = RowBlocks;
  static constexpr bool kSplit = Mode::kParts == 2, kMaySkew = false, kMayLackTaps = false;
  static constexpr Sm90WarpgroupTile kTile =
      sm90_warpgroup_tile(RowBlocks, Group, Mode::kParts, sizeof(typename Mode::T));
  static constexpr int kOwn = kTile.own, kWarpPositions = kTile.warp_positions();
  static constexpr int kPositions = kTile.positions(), kWarpgroups = kTile.warpgroups, kRings = kWarpgroups;
  static constexpr int kChannels = kTile.channels;
  static constexpr int kApart = Group == 0 ? 8 : 1;    // distance between a lane's positions
  static constexpr int kReaders = Group == 0 ? 2 : 4;  // warps that read a stage
  static constexpr int kFirst = Group == 0 ? 2 : 1;    // stages at a tile's start that carry its number
  static constexpr int kColumns = kSm90MarkedColumns;  // columns of a marked tile
  static constexpr int kThreads = 128 * (kWarpgroups + 1), kConsumers = 128 * kWarpgroups;
  static constexpr int kBlocksOfSm = 1;
  // Registers of a thread that multiplies and of any other. 384 threads start with 168 each, 512 with 128.
  static constexpr bool kMost = Group == 4 && RowBlocks == 2 && sizeof(typename Mode::T) == 4;
  static constexpr int kConsumer = kWarpgroups == 3 ? 160 : kMost ? 240 : 232;
  static constexpr int kProducer = kWarpgroups == 3 ? 32 : kMost ? 24 : 40;
};

}  // namespace tconv::cuda::sm90
