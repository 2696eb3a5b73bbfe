// A ring of places in shared memory, filled by some warps of a block and read by others.
//
// Each place has two barriers (mbarriers), full and empty. The side that fills waits for empty, writes and
// arrives at full; the side that reads waits for full, reads and arrives at empty. A barrier passes through
// phases; a wait tells them apart by parity, which follows from how often the ring has turned. Whoever fills
// the ring for the first time waits for the other parity, which is over from the start.
//
// Hazard: an arrival at empty says that the reads are over, which a load that was merely issued is not.
// Release a place after the first use of what was read from it, and after __syncwarp() if one lane releases
// it for its warp.
#pragma once

#include <cstdint>

namespace tconv::cuda {

struct RingPlace {
  int at = 0;
  uint32_t parity = 0;

  __device__ void advance(int size) {
    if (++at < size) return;
    at = 0;
    parity ^= 1;
  }
  // By several places, at most as many as there are.
  __device__ void advance(int size, int by) {
    at += by;
    if (at < size) return;
    at -= size;
    parity ^= 1;
  }
};

// The barriers of a ring's places, one after the other in shared memory: all full ones, then all empty ones.
struct RingBarriers {
  uint32_t base;
  int places;
  __device__ uint32_t full(int i) const { return base + 8 * i; }
  __device__ uint32_t empty(int i) const { return full(places + i); }
};

}  // namespace tconv::cuda
