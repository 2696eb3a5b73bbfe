// Which part of the work a block of threads has, and in which order it takes tiles.
#pragma once

#include "cuda/sm90/params.hpp"

namespace tconv::cuda::sm90 {

// Where the block is: its group's row blocks, its split's slabs.
struct Block {
  int walker, run, group, split;
  int first_slab, end_slab;

  template <class Params>
  __device__ explicit Block(const Params& p) {
    int place = blockIdx.x;
    walker = place % p.grid.walkers;
    place /= p.grid.walkers;
    run = place % p.grid.row_runs;
    place /= p.grid.row_runs;
    group = place % p.sizes.groups;
    split = place / p.sizes.groups;
    first_slab = p.grid.unit_slabs * static_cast<int>(int64_t{p.grid.units} * split / p.grid.splits);
    end_slab = min(p.grid.slabs,
                   p.grid.unit_slabs * static_cast<int>(int64_t{p.grid.units} * (split + 1) / p.grid.splits));
  }

  // The marks of the block's tiles, if there are any: two for each.
  template <class Params>
  __device__ int* marks(const Params& p) const {
    return p.marks.tiles +
           ((int64_t{split} * p.sizes.groups + group) * p.grid.row_runs + run) * 2 * p.columns.column_tiles;
  }
};

// Where each slab has one phase: the phases of a split's slabs, one after the other.
class SlabPhase {
 public:
  __device__ SlabPhase(const Sm90GatherParams& p, const Block& block)
      : at_(block.first_slab - p.source.phases_div.divide(block.first_slab) * p.source.phases) {}
  __device__ bool lacks_first_tap(const Sm90GatherParams& p) const { return at_ >= p.source.whole; }
  __device__ void next(const Sm90GatherParams& p) {
    if (++at_ == p.source.phases) at_ = 0;
  }

 private:
  int at_;
};

// The mark that packing gave a row block of the block's group; none if it does not exist.
template <class Params>
__device__ inline uint32_t weight_marks(const Params& p, const Block& block, int row_block) {
  if (row_block >= p.sizes.row_blocks) return 0;
  const auto* packed = static_cast<const unsigned char*>(p.operands.packed);
  const auto* marks = reinterpret_cast<const uint4*>(
      packed + p.weights.marks_at + (int64_t{block.group} * p.sizes.row_blocks + row_block) * kSm90RowMarks);
  uint32_t any = 0;
#pragma unroll
  for (int i = 0; i < kSm90RowMarks / 16; ++i) any |= marks[i].x | marks[i].y | marks[i].z | marks[i].w;
  return any;
}

// A block's tiles of columns: every walkers-th one; in a second launch, the marked ones of them.
class ColumnTiles {
 public:
  __device__ ColumnTiles(const Sm90GatherParams& p, const Block& block)
      : tile(first_from(p, block, block.walker)) {}
  __device__ bool there(const Sm90GatherParams& p) const { return tile < p.columns.column_tiles; }
  __device__ void next(const Sm90GatherParams& p, const Block& block) {
    tile = first_from(p, block, tile + p.grid.walkers);
  }

  int tile;

 private:
  __device__ static int first_from(const Sm90GatherParams& p, const Block& block, int tile) {
    if (!p.marks.only) return tile;
    const int* marked = block.marks(p);
    while (tile < p.columns.column_tiles && (marked[2 * tile] | marked[2 * tile + 1]) == 0) {
      tile += p.grid.walkers;
    }
    return tile;
  }
};

// Where a warpgroup's tile is.
struct ColumnPlace {
  int n, at;   // sample; which of its tiles
  int column;  // the tile's first, of its sample's columns
};
__device__ inline ColumnPlace place_of(const Sm90TmaParams& p, int tile) {
  const int n = static_cast<int>(p.tiles.per_sample.divide(tile));
  const int at = tile - n * static_cast<int>(p.tiles.per_sample.value);
  return {n, at, at * p.tiles.step};
}

// Rounds of warpgroup tiles, one tile for each warpgroup.
struct TileRounds {
  int round;

  __device__ TileRounds(const Sm90TmaParams&, const Block& block) : round(block.walker) {}
  __device__ bool there(const Sm90TmaParams& p) const { return round < p.tiles.rounds; }
  __device__ void next(const Sm90TmaParams& p, const Block&) { round += p.grid.walkers; }
};

// The tiles of a warpgroup, in order. By turns, neighbouring warpgroups take neighbouring tiles, and all have
// the same number: the last ones may be of a sample that does not exist, all zeros. Large problems draw them
// from a counter instead (is_drawn() in dense_plan.cpp).
template <class S>
class WarpgroupTiles {
 public:
  // takes: whether this lane draws them.
  __device__ WarpgroupTiles(const Sm90TmaParams& p, const Block& block, int warpgroup, bool takes = true)
      : counter_(takes && p.tiles.counters != nullptr
                     ? p.tiles.counters + block.group * p.grid.row_runs + block.run
                     : nullptr),
        end_(S::kWarpgroups * p.tiles.rounds),
        step_(S::kWarpgroups * p.grid.walkers),
        next_(S::kWarpgroups * block.walker + warpgroup) {
    if (counter_ != nullptr) next_ = atomicAdd(counter_, 1);
  }
  // -1: no more. Drawn one tile ahead, which hides the latency.
  __device__ int take() {
    const int now = next_;
    if (now >= end_) return -1;
    next_ = counter_ != nullptr ? atomicAdd(counter_, 1) : now + step_;
    return now;
  }

 private:
  int* counter_;
  int end_, step_, next_;
};

}  // namespace tconv::cuda::sm90
