// What a tile shape in a mode is, the order of the loops, and the block's barriers.
#pragma once

#include "cuda/device/ptx/sm90.cuh"
#include "cuda/sm80/modes.cuh"
#include "cuda/sm90/dense.hpp"

namespace tconv::cuda::sm90 {

using sm80::Bf16;
using sm80::F16;
using sm80::Ieee;
using sm80::Tf32;

// tf32 with its 10 mantissa bits held in float16, at twice the rate. A power of two for each tile of x and
// another for each cout keep operands in float16's normal range; a tile that holds a number outside of it is
// marked, and computed by Tf32 in a second launch.
struct Held {
  using T = float;
  using Sum = float;
  using Word = uint32_t;
  static constexpr int kParts = 1, kUnit = 8, kDepth = 16, kSlab = 32;
};

// ieee float32 in two parts of float16, of 11 bits each: v*scale = hi + lo/2^11 up to 2^-22 of it. Scales and
// marks as of Held; marked tiles are computed by Ieee. Only where x goes direct.
struct HeldSplit {
  using T = float;
  using Sum = float;
  using Word = uint32_t;
  static constexpr int kParts = 2, kUnit = 8, kDepth = 16, kSlab = 32;
  static constexpr float kUp = 0x1p11f, kDown = 0x1p-11f;
};

template <class Mode>
inline constexpr bool kIsHeld = std::is_same_v<Mode, Held> || std::is_same_v<Mode, HeldSplit>;

// Two numbers times a power of two, in float16.
__device__ inline uint32_t held_pair(uint32_t left, uint32_t right, float scale) {
  const __half2 both = __floats2half2_rn(__uint_as_float(left) * scale, __uint_as_float(right) * scale);
  return *reinterpret_cast<const uint32_t*>(&both);
}

// Of magnitudes' bits: the exponent that a scale is chosen by, kept where scale and 1/scale are normal, and
// so are the limits.
__device__ inline int held_exponent(uint32_t most) {
  return most == 0 ? 127 : min(max(static_cast<int>(most >> 23), 67), 187);
}

// Of a number's bits, 0 where it is not finite.
__device__ inline uint32_t finite_magnitude(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fffffffu;
  return magnitude < sm80::kInfBits ? magnitude : 0u;
}

// Barriers of some of a block's warps, by number. 0 is __syncthreads'.
enum class NamedBarrier : int {
  warpgroup = 1,  // of the three that may multiply, one each: 1, 2, 3
  rows = 4,       // the epilogue's table of rows is there
  scale = 5       // warps that load have agreed on a scale
};
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ inline void sync_warps(NamedBarrier barrier, int threads) {
  ptx::named_barrier(static_cast<int>(barrier), threads);
}
__device__ inline void sync_warpgroup(int warpgroup) {
  ptx::named_barrier(static_cast<int>(NamedBarrier::warpgroup) + warpgroup, 128);
}
#endif

template <class M, int RowBlocks, int N>
struct Shape {
  using Mode = M;
  static constexpr int kRowBlocks = RowBlocks, kN = N;
  static constexpr int kColumns = N * 2 / RowBlocks;
  static constexpr int kSlotBytes = RowBlocks * Mode::kParts * kSm90BlockBytes;
  // Registers of a thread that multiplies, and of one that loads: 512 threads have 128 each to begin with.
  static constexpr int kConsumer = N == 256 ? 176 : Mode::kParts == 2 ? 168 : 136;
  static constexpr int kProducer = 256 - kConsumer;
};

// What the block of threads is at: its group's row blocks, its split's slabs.
struct Share {
  int walker, run, group, split;
  int first_slab, end_slab;

  __device__ explicit Share(const Sm90Params& p) {
    int place = blockIdx.x;
    walker = place % p.walkers;
    place /= p.walkers;
    run = place % p.row_runs;
    place /= p.row_runs;
    group = place % p.groups;
    split = place / p.groups;
    first_slab = p.unit_slabs * static_cast<int>(int64_t{p.units} * split / p.splits);
    end_slab = min(p.slabs, p.unit_slabs * static_cast<int>(int64_t{p.units} * (split + 1) / p.splits));
  }

  // Marks of this share's tiles, where there are any.
  __device__ int* marks(const Sm90Params& p) const {
    return p.tile_marks + ((int64_t{split} * p.groups + group) * p.row_runs + run) * 2 * p.column_tiles;
  }
  // The walker's first tile from `tile` on that is to be computed: of a second launch, the next marked one.
  __device__ int next_tile(const Sm90Params& p, int tile) const {
    if (!p.second) return tile;
    const int* marked = marks(p);
    while (tile < p.column_tiles && (marked[2 * tile] | marked[2 * tile + 1]) == 0) tile += p.walkers;
    return tile;
  }
};

// Which stage: tile of columns, slab of channels, group of taps; in the order of the loops.
struct Cursor {
  int tile, slab, group;

  __device__ Cursor(const Sm90Params& p, const Share& share)
      : tile(share.next_tile(p, share.walker)), slab(share.first_slab), group(0) {}
  __device__ void advance(const Sm90Params& p, const Share& share) {
    if (++group < p.tap_groups) return;
    group = 0;
    if (++slab < share.end_slab) return;
    slab = share.first_slab;
    tile = share.next_tile(p, tile + p.walkers);
  }
  __device__ bool starts_tile(const Share& share) const { return group == 0 && slab == share.first_slab; }
};

// A place in a ring, and the parity of its barriers' phase.
struct Place {
  int at = 0;
  uint32_t parity = 0;

  __device__ void advance(int size) {
    if (++at < size) return;
    at = 0;
    parity ^= 1;
  }
};

// Addresses of the barriers: operands of x full, empty; weights full, empty.
struct Barriers {
  uint32_t base;
  int stages, slots;

  __device__ Barriers(const Sm90Params& p, const unsigned char* shared)
      : base(ptx::shared_address(shared + p.shared_barriers)), stages(p.stages), slots(p.slots) {}
  __device__ uint32_t x_full(int i) const { return base + 8 * i; }
  __device__ uint32_t x_empty(int i) const { return base + 8 * (stages + i); }
  __device__ uint32_t weights_full(int i) const { return base + 8 * (2 * stages + i); }
  __device__ uint32_t weights_empty(int i) const { return base + 8 * (2 * stages + slots + i); }

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __device__ void init() const {
    for (int i = 0; i < stages; ++i) {
      ptx::barrier_init(x_full(i), kSm90Gatherers);  // warps that write a stage
      ptx::barrier_init(x_empty(i), kSm90Consumers / 32);
    }
    for (int i = 0; i < slots; ++i) {
      ptx::barrier_init(weights_full(i), 1);
      ptx::barrier_init(weights_empty(i), kSm90Consumers / 32);
    }
    ptx::barrier_init_done();
  }
#endif
};

}  // namespace tconv::cuda::sm90
