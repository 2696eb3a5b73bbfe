// The lane that brings weights into the ring of slots.
#pragma once

#include "cuda/sm90/shape.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// One lane brings the weights, by bulk copies.
template <class S>
__device__ inline void load_weights(const Sm90Params& p, const Share& share, const Barriers& barriers,
                                    unsigned char* shared) {
  constexpr int kBytes = S::kSlotBytes / S::kRowBlocks;
  const uint32_t to = ptx::shared_address(shared + p.shared_weights);
  const unsigned char* from[S::kRowBlocks];
#pragma unroll
  for (int r = 0; r < S::kRowBlocks; ++r) {
    // A row block that does not exist is the last one again: nothing reads it.
    const int block = min(share.run * S::kRowBlocks + r, p.row_blocks - 1);
    from[r] = static_cast<const unsigned char*>(p.packed) +
              (int64_t{share.group} * p.row_blocks + block) * p.row_block_bytes +
              int64_t{share.first_slab} * p.taps * kBytes;
  }
  const int taps = (share.end_slab - share.first_slab) * p.taps;
  Place slot;
  for (int tile = share.next_tile(p, share.walker); tile < p.column_tiles;
       tile = share.next_tile(p, tile + p.walkers)) {
#pragma unroll 1
    for (int i = 0; i < taps; ++i) {
      ptx::barrier_wait(barriers.weights_empty(slot.at), slot.parity ^ 1);
      ptx::barrier_arrive_expect(barriers.weights_full(slot.at), S::kSlotBytes);
#pragma unroll
      for (int r = 0; r < S::kRowBlocks; ++r) {
        ptx::bulk_load(to + slot.at * S::kSlotBytes + r * kBytes, from[r] + int64_t{i} * kBytes, kBytes,
                       barriers.weights_full(slot.at));
      }
      slot.advance(p.slots);
    }
    if (p.resident) return;
  }
}

#endif

}  // namespace tconv::cuda::sm90
