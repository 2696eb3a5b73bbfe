// Raw rows of x on their way into shared memory, for turned_stages.cuh: in which order they come, and who
// copies them.
#pragma once

#include <climits>

#include "cuda/sm90/blocked_stages.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Chunks of channel blocks in the order of the loops: tiles, chunks, groups of taps. (A chunk is a slab where
// there are several groups.) Units are counted from the split's first one.
template <class S>
class RawWalk {
 public:
  __device__ RawWalk(const Sm90TurnedParams& p, const Block& block)
      : tiles_(p, block),
        first_chunk_(S::kSlabUnits * block.first_slab / p.raw.chunk_units),
        units_(S::kSlabUnits * (block.end_slab - block.first_slab)) {
    first_ = first_chunk_ * p.raw.chunk_units - S::kSlabUnits * block.first_slab;
    begin_tile(p);
  }
  __device__ bool there(const Sm90TurnedParams& p) const { return tiles_.there(p); }
  __device__ void advance(const Sm90TurnedParams& p, const Block& block) {
    if (++group_ < p.source.tap_groups) return;
    group_ = 0;
    ++chunk_;
    unit_ += p.raw.chunk_units;
    if (unit_ < units_) return;
    tiles_.next(p, block);
    begin_tile(p);
  }

  __device__ int sample() const { return sample_; }
  __device__ int channel_block(const Sm90TurnedParams& p) const {
    return (first_chunk_ + chunk_) * p.raw.blocks;
  }
  // Of x: the position of the first column at phase 0.
  __device__ int start(const Sm90TurnedParams& p) const {
    return (column_ - p.sizes.step * group_ * p.source.tap_group) * p.raw.stride - p.raw.padding;
  }
  // The chunk's first unit, which is below 0 where it belongs to the split before; units of the split.
  __device__ int unit() const { return unit_; }
  __device__ int units() const { return units_; }
  // Slabs: the chunk's first and last one, and how many are complete after it.
  __device__ int first_slab() const { return max(unit_, 0) / S::kSlabUnits; }
  __device__ int last_slab(const Sm90TurnedParams& p) const {
    return (min(unit_ + p.raw.chunk_units, units_) - 1) / S::kSlabUnits;
  }
  __device__ int complete(const Sm90TurnedParams& p) const {
    return min(unit_ + p.raw.chunk_units, units_) / S::kSlabUnits;
  }

 private:
  __device__ void begin_tile(const Sm90TurnedParams& p) {
    sample_ = static_cast<int>(p.columns.sample_tiles.divide(tiles_.tile));
    const int tile = tiles_.tile - sample_ * static_cast<int>(p.columns.sample_tiles.value);
    column_ = tile * S::kColumns + static_cast<int>(p.columns.first_u) - (p.source.halo - p.raw.front);
    chunk_ = 0;
    unit_ = first_;
  }

  ColumnTiles tiles_;
  int first_chunk_, units_;  // of the split
  int first_;
  int sample_, column_, chunk_, unit_, group_ = 0;
};

// The ring of raw rows. A place has all blocks of a chunk, which the warps that turn divide among them; or,
// where a chunk is one block, a share of it. Then places go to these warps by turns, so that each of them has
// its own.
struct RawRing {
  uint32_t rows, barriers;
  int places, place_bytes;

  __device__ RawRing(const Sm90TurnedParams& p, const unsigned char* shared)
      : rows(ptx::shared_address(shared + p.raw.shared)),
        barriers(ptx::shared_address(shared + p.raw.barriers)),
        places(p.raw.places),
        place_bytes(p.raw.place_bytes) {}
  __device__ uint32_t full(int i) const { return barriers + 8 * i; }
  __device__ uint32_t empty(int i) const { return full(places + i); }
  __device__ uint32_t place(int i) const { return rows + i * place_bytes; }
};

// How many elements before `position` a copy of rows that begin `late` elements behind 16 bytes must begin.
template <class S>
__device__ inline int before_copy(int position, int late) {
  return (position + late) & (S::kVector - 1);
}

// Fills the ring of raw rows by tensor copies: the part of one lane.
template <class S>
class RawSource {
 public:
  __device__ RawSource(const Sm90TurnedParams& p, const Block& block, unsigned char* shared)
      : p_(p), block_(block), ring_(p, shared), walk_(p, block) {}

  // Called twice: with begin, for the places that are empty at first; then for all others.
  __device__ void fill(bool begin) {
    const Sm90RawSource& raw = p_.raw;
#pragma unroll 1
    for (int places = begin ? ring_.places : INT_MAX; places > 0 && walk_.there(p_); --places) {
      const int start = walk_.start(p_), first = walk_.channel_block(p_);
      const int boxes = raw.blocks > 1 ? raw.boxes : min(raw.boxes - box_, raw.share);
      next_place(raw.blocks * boxes);
#pragma unroll 1
      for (int block = first; block < first + raw.blocks; ++block) {
        copy(block, start, walk_.sample(), box_, boxes);
      }
      box_ += boxes;
      if (box_ < raw.boxes) continue;
      box_ = 0;
      walk_.advance(p_, block_);
    }
  }

 private:
  __device__ void next_place(int boxes) {
    ptx::barrier_wait(ring_.empty(place_.at), place_.parity ^ 1);
    full_ = ring_.full(place_.at);
    to_ = ring_.place(place_.at);
    ptx::barrier_arrive_expect(full_, boxes * p_.raw.box_bytes);
    place_.advance(ring_.places);
  }
  __device__ void copy(int block, int start, int sample, int first, int boxes) {
    const Sm90RawSource& raw = p_.raw;
    const int row_class = block & ((1 << raw.log_classes) - 1), late = raw.late[row_class];
    int at[4] = {start + late - before_copy<S>(start, late) + first * raw.step, block >> raw.log_classes << 3,
                 block_.group, sample};
#pragma unroll 1
    for (int b = 0; b < boxes; ++b, at[0] += raw.step, to_ += raw.box_bytes) {
      ptx::tensor_load(to_, &raw.maps[row_class], at, full_);
    }
  }

  const Sm90TurnedParams& p_;
  const Block& block_;
  RawRing ring_;
  RawWalk<S> walk_;
  int box_ = 0;  // the chunk's next one, where it is one block
  RingPlace place_;
  uint32_t to_, full_;
};

#endif

}  // namespace tconv::cuda::sm90
