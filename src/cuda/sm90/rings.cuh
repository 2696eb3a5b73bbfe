// The barriers of a block's rings: stages of x, one ring or one a warpgroup, and slots of packed weights.
#pragma once

#include "cuda/device/named_barriers.cuh"
#include "cuda/device/ring.cuh"
#include "cuda/sm90/schedule.cuh"
#include "cuda/sm90/shapes.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// How many arrivals complete a phase of each barrier.
struct Arrivals {
  int full, empty, weights_full, weights_empty;
};

template <class S>
struct Rings {
  uint32_t base;  // shared addresses from here on
  int stages, slots;

  __device__ Rings(const typename S::Params& p, const unsigned char* shared)
      : base(ptx::shared_address(shared + p.barriers)), stages(p.source.stages), slots(p.weights.slots) {}
  __device__ uint32_t full(int ring, int i) const { return base + 8 * (ring * stages + i); }
  __device__ uint32_t empty(int ring, int i) const { return full(S::kRings + ring, i); }
  __device__ uint32_t weights_full(int i) const { return full(2 * S::kRings, i); }
  __device__ uint32_t weights_empty(int i) const { return weights_full(slots + i); }

  __device__ void init(const Arrivals& arrivals) const {
    for (int i = 0; i < S::kRings * stages; ++i) {
      ptx::barrier_init(full(0, i), arrivals.full);
      ptx::barrier_init(empty(0, i), arrivals.empty);
    }
    for (int i = 0; i < slots; ++i) {
      ptx::barrier_init(weights_full(i), arrivals.weights_full);
      ptx::barrier_init(weights_empty(i), arrivals.weights_empty);
    }
    ptx::barrier_init_done();
  }
};

#endif

}  // namespace tconv::cuda::sm90
