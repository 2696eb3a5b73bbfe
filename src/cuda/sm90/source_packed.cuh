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

// The part of one thread, by bulk copies. The pieces of a slot for all row blocks lie side by side:
//
//   x gathered         a slot is one tap of a slab, in one piece
//                        [row block][part][channel block][row]
//   x by tensor copies a slot is a slab, in pieces of a channel block
//                        [tap][part][channel block][row block][row]
//
// Walk: the tiles of the thread's block, each of which needs all slots once, or once a sweep. Resident
// weights come once, however many tiles there are.
template <class S, class Walk>
class PackedSource {
 public:
  using Params = typename S::Params;

  // All slots, one after the other.
  __device__ static void run(const Params& p, const Block& block, unsigned char* shared,
                             const Rings<S>& rings) {
    wait_for_launch_beside(p.order);
    for (PackedSource slots(p, block, shared, rings); slots.there();) {
      slots.wait();
      slots.copy();
    }
  }

  __device__ PackedSource(const Params& p, const Block& block, unsigned char* shared, const Rings<S>& rings)
      : p_(p), block_(block), rings_(rings), walk_(p, block), sweeps_(p), tap_(p, block) {
    piece_bytes_ = kWhole ? kTapBytes : kSm90Rows * 16;
    pieces_ = kWhole ? 1 : p.sizes.taps * (kTapBytes / (kSm90Rows * 16));
    slots_ = kWhole ? (block.end_slab - block.first_slab) * p.sizes.taps : p.grid.slabs;
    to_ = ptx::shared_address(shared + p.weights.shared);
    const int64_t first = kWhole ? int64_t{block.first_slab} * p.sizes.taps * kTapBytes : 0;
#pragma unroll
    for (int r = 0; r < S::kRowBlocks; ++r) {
      // A row block that does not exist repeats the last one; nothing reads it.
      const int row_block = min(block.run * S::kRowBlocks + r, p.sizes.row_blocks - 1);
      from_[r] = static_cast<const unsigned char*>(p.operands.packed) + first +
                 (int64_t{block.group} * p.sizes.row_blocks + row_block) * p.weights.row_block_bytes;
    }
    // Whoever multiplies waits for resident weights, even without tiles.
    there_ = p.weights.resident || walk_.there(p);
    if (!there_) return;
    sweep_ = walk_.there(p) ? sweeps_.of_tile(p_, block_, walk_) : 1;
    if (tap_.lacks(p_)) next();
  }

  __device__ bool there() const {
    return there_;
  }
  // Whether the slot's place is empty.
  __device__ bool ready() const {
    return ptx::barrier_over(rings_.weights_empty(place_.at), place_.parity ^ 1);
  }
  __device__ void wait() const {
    ptx::barrier_wait(rings_.weights_empty(place_.at), place_.parity ^ 1);
  }
  __device__ void copy() {
    const int bytes = pieces_ * piece_bytes_;  // of a slot's row block
    const uint32_t full = rings_.weights_full(place_.at);
    ptx::barrier_arrive_expect(full, S::kRowBlocks * bytes);
    uint32_t to = to_ + place_.at * S::kRowBlocks * bytes;
    const int64_t from = int64_t{slot_} * bytes;
#pragma unroll 1
    for (int i = 0; i < pieces_; ++i) {
#pragma unroll
      for (int r = 0; r < S::kRowBlocks; ++r, to += piece_bytes_) {
        ptx::bulk_load(to, from_[r] + from + i * piece_bytes_, piece_bytes_, full);
      }
    }
    place_.advance(p_.weights.slots);
    next();
  }

 private:
  static constexpr bool kWhole = std::is_base_of_v<Sm90GatherParams, Params>;
  static constexpr int kTapBytes = S::Mode::kParts * kSm90PartBytes;

  __device__ void next() {
    do {
      if (++slot_ < slots_) continue;
      slot_ = 0;
      there_ = !p_.weights.resident;
      if (!there_) return;
      if (--sweep_ > 0) continue;
      walk_.next(p_, block_);
      there_ = walk_.there(p_);
      if (!there_) return;
      sweep_ = sweeps_.of_tile(p_, block_, walk_);
    } while (tap_.lacks(p_));
  }

  const Params& p_;
  const Block& block_;
  const Rings<S>& rings_;
  Walk walk_;
  const Sweeps<S> sweeps_;
  TapSlots<S> tap_;
  RingPlace place_;
  int pieces_, piece_bytes_, slots_;  // slots of a sweep
  int sweep_ = 0, slot_ = 0;          // sweeps left; of the sweep
  uint32_t to_;
  const unsigned char* from_[S::kRowBlocks];
  bool there_;
};

#endif

}  // namespace tconv::cuda::sm90
