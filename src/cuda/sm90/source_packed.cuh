// PackedSource: loads packed weights into the ring of slots.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/rings.cuh"
#include "cuda/sm90/scaled_tile.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Which slots of weights are left out because the phase of their slab lacks the tap. To be asked once for
// each slot, in order: taps, slabs of the split, tiles.
template <class S, bool = S::kMayLackTaps>
class TapSlots {
 public:
  __device__ TapSlots(const typename S::Params& p, const Block& block)
      : first_(p, block), phase_(first_), slabs_(block.end_slab - block.first_slab) {}
  __device__ bool lacks(const typename S::Params& p) {
    const bool lacks = tap_ == 0 && phase_.lacks_first_tap(p);
    if (++tap_ < p.sizes.taps) return lacks;
    tap_ = 0;
    phase_.next(p);
    if (++slab_ == slabs_) slab_ = 0, phase_ = first_;
    return lacks;
  }

 private:
  const SlabPhase first_;
  SlabPhase phase_;
  int slabs_, slab_ = 0, tap_ = 0;
};
template <class S>
class TapSlots<S, false> {
 public:
  __device__ TapSlots(const typename S::Params&, const Block&) {}
  __device__ bool lacks(const typename S::Params&) const { return false; }
};

// One lane for each row block, by bulk copies. The pieces of a slot for all row blocks lie side by side:
//
//   x gathered         a slot is one tap of a slab, in one piece
//                        [row block][part][channel block][row]
//   x by tensor copies a slot is a slab, in pieces of a channel block
//                        [tap][part][channel block][row block][row]
template <class S>
class PackedSource {
 public:
  using Params = typename S::Params;

  __device__ PackedSource(const Params& p, const Block& block, unsigned char* shared, int r)
      : p_(p), block_(block) {
    piece_bytes_ = kWhole ? kTapBytes : kSm90Rows * 16;
    pieces_ = kWhole ? 1 : p.sizes.taps * (kTapBytes / (kSm90Rows * 16));
    to_ = ptx::shared_address(shared + p.weights.shared) + r * piece_bytes_;
    // A row block that does not exist repeats the last one; nothing reads it.
    const int row_block = min(block.run * S::kRowBlocks + r, p.sizes.row_blocks - 1);
    from_ = static_cast<const unsigned char*>(p.operands.packed) +
            (int64_t{block.group} * p.sizes.row_blocks + row_block) * p.weights.row_block_bytes +
            (kWhole ? int64_t{block.first_slab} * p.sizes.taps * kTapBytes : 0);
  }

  template <class Walk>
  __device__ void run(const Rings<S>& rings) const {
    wait_for_launch_beside(p_.order);
    const int slots =
        kWhole ? (block_.end_slab - block_.first_slab) * p_.sizes.taps : p_.grid.slabs;  // of a tile
    const int slot_bytes = pieces_ * piece_bytes_;
    const Sweeps<S> sweeps(p_);
    RingPlace slot;
    TapSlots<S> tap(p_, block_);
    // Whoever multiplies waits for resident weights, even without tiles.
    for (Walk walk(p_, block_); p_.weights.resident || walk.there(p_); walk.next(p_, block_)) {
      for (int sweep = sweeps.of_tile(p_, block_, walk); sweep > 0; --sweep) {
#pragma unroll 1
        for (int s = 0; s < slots; ++s) {
          if (tap.lacks(p_)) continue;
          const uint32_t full = rings.weights_full(slot.at);
          ptx::barrier_wait(rings.weights_empty(slot.at), slot.parity ^ 1);
          ptx::barrier_arrive_expect(full, slot_bytes);
#pragma unroll 4
          for (int i = 0; i < pieces_; ++i) {
            ptx::bulk_load(to_ + (slot.at * pieces_ + i) * S::kRowBlocks * piece_bytes_,
                           from_ + int64_t{s} * slot_bytes + i * piece_bytes_, piece_bytes_, full);
          }
          slot.advance(p_.weights.slots);
        }
      }
      if (p_.weights.resident) return;
    }
  }

 private:
  static constexpr bool kWhole = std::is_base_of_v<Sm90GatherParams, Params>;
  static constexpr int kTapBytes = S::Mode::kParts * kSm90PartBytes;

  const Params& p_;
  const Block& block_;
  int pieces_, piece_bytes_;
  uint32_t to_;
  const unsigned char* from_;
};

#endif

}  // namespace tconv::cuda::sm90
