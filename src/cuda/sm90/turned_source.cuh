// Raw rows of x on their way into shared memory, for turned_stages.cuh: in which order they come, and who
// copies them.
#pragma once

#include "cuda/sm90/blocked_stages.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// What is copied at once, and turned by one warp: a share of the positions of a channel block, in the order
// of the loops: tiles; chunks; groups of taps; blocks of the chunk, or shares if it is one block. (A chunk is
// a slab where there are several groups.) Units are counted from the split's first one.
template <class S>
class RawItems {
 public:
  __device__ RawItems(const Sm90TurnedParams& p, const Block& block)
      : tiles_(p, block),
        first_chunk_(S::kSlabUnits * block.first_slab / p.raw.chunk_units),
        units_(S::kSlabUnits * (block.end_slab - block.first_slab)) {
    first_ = first_chunk_ * p.raw.chunk_units - S::kSlabUnits * block.first_slab;
    begin_tile(p);
  }
  __device__ bool there(const Sm90TurnedParams& p) const { return tiles_.there(p); }
  // Whether the chunk has the item that is so many after it; if not, skip() goes to the chunk that does, and
  // returns how many slabs later that one's first slab is.
  __device__ bool step(const Sm90TurnedParams& p, int items) {
    item_ += items;
    return item_ < p.raw.items;
  }
  __device__ int skip(const Sm90TurnedParams& p, const Block& block) {
    int slabs = 0;
#pragma unroll 1
    while (item_ >= p.raw.items) {
      item_ -= p.raw.items;
      slabs += next_chunk(p, block);
    }
    return slabs;
  }

  __device__ int sample() const {
    return sample_;
  }
  // Of x: the position of the first column at phase 0.
  __device__ int start() const {
    return start_;
  }
  __device__ int channel_block(const Sm90TurnedParams& p) const {
    return channel_block_ + (p.raw.blocks > 1 ? item_ : 0);
  }
  __device__ int first_box(const Sm90TurnedParams& p) const {
    return p.raw.blocks > 1 ? 0 : item_ * p.raw.share;
  }
  // Units counted from the first one of the chunk's first slab: the item's first one, which is below 0 where
  // the split before has it; the first one and the end of those that the split has of the chunk; the split's
  // end.
  __device__ int unit(const Sm90TurnedParams& p) const {
    return unit_ - S::kSlabUnits * slab() + (p.raw.blocks > 1 ? item_ * p.raw.phases : 0);
  }
  __device__ int chunk_begin() const {
    return max(unit_, 0) - S::kSlabUnits * slab();
  }
  __device__ int chunk_end(const Sm90TurnedParams& p) const {
    return min(unit_ + p.raw.chunk_units, units_) - S::kSlabUnits * slab();
  }
  __device__ int units() const {
    return units_ - S::kSlabUnits * slab();
  }

 private:
  __device__ int slab() const {
    return static_cast<uint32_t>(max(unit_, 0)) / S::kSlabUnits;
  }
  __device__ int next_chunk(const Sm90TurnedParams& p, const Block& block) {
    if (++group_ < p.source.tap_groups) {
      start_ -= p.sizes.step * p.source.tap_group * p.raw.stride;
      return 1;
    }
    const int before = slab();
    channel_block_ += p.raw.blocks;
    unit_ += p.raw.chunk_units;
    group_ = 0;
    if (unit_ >= units_) {
      tiles_.next(p, block);
      begin_tile(p);
      return static_cast<uint32_t>(units_) / S::kSlabUnits - before;
    }
    start_ = tile_start_;
    return slab() - before;
  }
  __device__ void begin_tile(const Sm90TurnedParams& p) {
    sample_ = static_cast<int>(p.columns.sample_tiles.divide(tiles_.tile));
    const int tile = tiles_.tile - sample_ * static_cast<int>(p.columns.sample_tiles.value);
    const int column =
        tile * S::kColumns + static_cast<int>(p.columns.first_u) - (p.source.halo - p.raw.front);
    start_ = tile_start_ = column * p.raw.stride - p.raw.padding;
    channel_block_ = first_chunk_ * p.raw.blocks;
    unit_ = first_;
  }

  ColumnTiles tiles_;
  int first_chunk_, units_;  // of the split
  int first_;
  int sample_, tile_start_, start_, channel_block_, unit_, group_ = 0, item_ = 0;
};

// The ring of raw rows, a place for each item. The warps that turn take items by turns.
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

// Fills the ring of raw rows by tensor copies: the part of one thread. What it takes is the instructions of a
// copy, so inside a row of x one copy brings all boxes of a share, which overlap there. Near the ends of a
// row each box has its own, so that positions that do not exist are zero.
template <class S>
class RawSource {
 public:
  __device__ RawSource(const Sm90TurnedParams& p, const Block& block, unsigned char* shared)
      : p_(p), block_(block), ring_(p, shared), items_(p, block) {}

  __device__ bool there() const { return items_.there(p_); }
  // Whether the next place is empty.
  __device__ bool ready() const { return ptx::barrier_over(ring_.empty(place_.at), place_.parity ^ 1); }
  __device__ void copy() {
    const Sm90RawSource& raw = p_.raw;
    const int block = items_.channel_block(p_), first_box = items_.first_box(p_);
    const int row_class = block & ((1 << raw.log_classes) - 1), row = block >> raw.log_classes << 3;
    const int start = items_.start(), late = raw.late[row_class];
    const int first = start + late - before_copy<S>(start, late) + first_box * raw.step;
    const Sm90RawSource::Maps& maps = raw.maps[row_class];
    const uint32_t full = ring_.full(place_.at), to = ring_.place(place_.at);
    if (first >= 0 && first <= raw.inner) {
      const int at[5] = {first, row, 0, block_.group, items_.sample()};
      ptx::barrier_arrive_expect(full, raw.place_bytes);
      ptx::tensor_load(to, &maps.share, at, full);
    } else {
      const int boxes = min(raw.share, raw.boxes - first_box);
      const int at[4] = {first, row, block_.group, items_.sample()};
      ptx::barrier_arrive_expect(full, boxes * raw.box_bytes);
      copy_boxes(&maps.box, at, to, boxes, full);
    }
    place_.advance(ring_.places);
    if (!items_.step(p_, 1)) items_.skip(p_, block_);
  }

 private:
  __device__ void copy_boxes(const TensorMap* map, const int (&first)[4], uint32_t to, int boxes,
                             uint32_t full) const {
    int at[4] = {first[0], first[1], first[2], first[3]};
#pragma unroll 1
    for (; boxes > 0; --boxes, at[0] += p_.raw.step, to += p_.raw.box_bytes) {
      ptx::tensor_load(to, map, at, full);
    }
  }

  const Sm90TurnedParams& p_;
  const Block& block_;
  RawRing ring_;
  RawItems<S> items_;
  RingPlace place_;
};

#endif

}  // namespace tconv::cuda::sm90
