// The kernel of pointwise.hpp.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm80/pointwise_store.cuh"
#include "cuda/sm90/pointwise_product.cuh"

namespace tconv::cuda::sm90::pointwise {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class Sums>
__device__ __forceinline__ bool any_infinite(const Sums& sums) {
  float poison = 0;
#pragma unroll
  for (const auto& product : sums) {
#pragma unroll
    for (const float sum : product) poison = fmaf(sum, 0.f, poison);
  }
  return poison != 0;
}

// A block's slabs. Thread 0 copies: to each stage anew, once all eight warps have let it go.
template <class S>
class Slabs {
 public:
  __device__ Slabs(const Sm90PointwiseParams& p, const Place& place, unsigned char* shared)
      : p_(p),
        place_(place),
        ring_{ptx::shared_address(shared), p.stages},
        stages_(ring_.base + kSm90PointwiseHead) {
    if (threadIdx.x != 0) return;
    for (int i = 0; i < p.stages; ++i) {
      ptx::barrier_init(ring_.full(i), 1);
      ptx::barrier_init(ring_.empty(i), kPointwiseThreads / 32);
    }
    ptx::barrier_init_done();
  }

  __device__ __forceinline__ void multiply(Group<S>& group, typename Group<S>::Sums& sums) const {
    __syncthreads();  // the barriers are there
    if (!S::kThreadsCopy && threadIdx.x == 0) {
      for (int i = 0; i < p_.stages; ++i) copy(place_.first_slab + i, i);
    }
    RingPlace place, before;
    complete(place_.first_slab, place);
    if constexpr (kBarrier) __syncthreads();
#pragma unroll 1
    for (int slab = place_.first_slab; slab < place_.end_slab; ++slab) {
      group.load(stage_at(place.at));
      group.multiply(stage_at(place.at), sums);
      if (!S::kThreadsCopy && threadIdx.x == 0 && slab > place_.first_slab) refill(slab - 1, before);
      before = place;
      place.advance(p_.stages);
      if (slab + 1 < place_.end_slab) complete(slab + 1, place);
      ptx::wgmma_wait<0>(sums);
      if constexpr (kBarrier) __syncthreads();
      if (!S::kThreadsCopy && threadIdx.x % 32 == 0) ptx::barrier_arrive(ring_.empty(before.at));
    }
  }

 private:
  // After complete(): whether others' stores must be waited for.
  static constexpr bool kBarrier = S::kTurns || S::kThreadsCopy;

  __device__ uint32_t stage_at(int stage) const {
    return stages_ + stage * S::kStageBytes;
  }

  __device__ __forceinline__ void copy(int slab, int stage) const {
    if (slab < place_.end_slab) copy_slab<S>(p_, place_, slab, stage_at(stage), ring_.full(stage));
  }

  // The stage of a slab, with the slab that takes its place.
  __device__ __forceinline__ void refill(int slab, const RingPlace& at) const {
    if (slab + p_.stages >= place_.end_slab) return;
    ptx::barrier_wait(ring_.empty(at.at), at.parity);
    copy(slab + p_.stages, at.at);
  }

  // A slab becomes operands in its stage, which no thread reads yet.
  __device__ __forceinline__ void complete(int slab, const RingPlace& at) const {
    if constexpr (S::kThreadsCopy) {
      fill_slab<S>(p_, slab, stage_at(at.at));
      if constexpr (S::kTurns) __syncthreads();
    } else {
      ptx::barrier_wait(ring_.full(at.at), at.parity);
    }
    if constexpr (S::kTurns) {
      Turned<S> weights;
      weights.load(stage_at(at.at));
      __syncthreads();
      weights.store(stage_at(at.at));
    }
    if constexpr (kBarrier) ptx::fence_async();
  }

  const Sm90PointwiseParams& p_;
  const Place& place_;
  const RingBarriers ring_;
  const uint32_t stages_;
};

#endif

template <class S>
__global__ void __launch_bounds__(kPointwiseThreads, S::kThreadsCopy ? 1 : S::kTile.blocks)
    pointwise_kernel(const __grid_constant__ Sm90PointwiseParams p) {
  wait_for_launch_before();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const Place place(p, S::kRows, S::kColumns);
  Group<S> group;
  typename Group<S>::Sums sums = {};
  Slabs<S>(p, place, shared).multiply(group, sums);
  __syncthreads();
  float* const staged = reinterpret_cast<float*>(shared);
  group.stage_sums(staged, sums);
  if constexpr (S::kElement == 4) {
    const bool all = __syncthreads_or(group.has_unfit());
    if (__syncthreads_or(all || any_infinite(sums))) {
      sm80::pointwise::repair<S>(p, staged, all);
      __syncthreads();
    }
  } else {
    __syncthreads();
  }
  sm80::pointwise::store_outputs<S>(p, place, staged);
#endif
}

template <class A, bool kThreadsCopy, bool kTurned, int... kTiles>
void set_tiles(Sm90PointwiseFunctions& functions, std::integer_sequence<int, kTiles...>) {
  ((functions.tiles[kThreadsCopy][kTurned][kTiles] =
        pointwise_kernel<Shape<A, kTiles, kTurned, kThreadsCopy>>),
   ...);
}

template <class A>
Sm90PointwiseFunctions functions_of() {
  constexpr auto kTiles = std::make_integer_sequence<int, kSm90PointwiseTileCount>();
  Sm90PointwiseFunctions functions;
  set_tiles<A, false, false>(functions, kTiles);
  set_tiles<A, false, true>(functions, kTiles);
  set_tiles<A, true, false>(functions, kTiles);
  set_tiles<A, true, true>(functions, kTiles);
  return functions;
}

}  // namespace tconv::cuda::sm90::pointwise
