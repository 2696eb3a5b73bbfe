// The reading ends of the rings of source_tma.cuh and source_packed.cuh, as the warpgroups see them.
#pragma once

#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A warpgroup's way through its raw stages.
template <class S>
class RawStages {
 public:
  // offset: bytes from the beginning of a stage to what the lane reads first.
  __device__ RawStages(const Sm90TmaParams& p, const Rings<S>& rings, unsigned char* shared, int warpgroup,
                       int lane, int offset)
      : p_(p), leader_(lane == 0) {
    first_ = {ptx::shared_address(shared) + warpgroup * p.source.stages * p.source.stage_bytes + offset,
              rings.full(warpgroup, 0)};
    stage_ = first_;
    last_full_ = rings.full(warpgroup, p.source.stages - 1);
    to_empty_ = rings.empty(warpgroup, 0) - rings.full(warpgroup, 0);
    tiles_ = reinterpret_cast<const int*>(shared + p.source.shared_tiles) + warpgroup * kSm90MaxStages;
  }

  // The next tile; -1: there are no more.
  __device__ int next_tile() const {
    wait();
    // Called by the lane that releases the stage.
    const int tile = leader_ ? tiles_[(stage_.full - first_.full) / 8] : 0;
    return __shfl_sync(0xffffffffu, tile, 0);
  }
  __device__ uint32_t address() const { return stage_.own; }
  __device__ uint32_t full() const { return stage_.full; }
  __device__ void wait() const { ptx::barrier_wait(stage_.full, parity_); }
  __device__ void advance() {
    const bool last = stage_.full == last_full_;
    stage_ = last ? first_ : Stage{stage_.own + p_.source.stage_bytes, stage_.full + 8};
    parity_ ^= last;
  }
  // Its numbers are in the registers of all lanes. If lanes write stages, each lane frees what it has read,
  // because a race check cannot follow a lane's reads through another lane's arrival.
  __device__ void release(uint32_t full) const {
    __syncwarp();
    if (leader_ || p_.source.by_elements) ptx::barrier_arrive(full + to_empty_);
  }

 private:
  struct Stage {
    uint32_t own, full;  // shared addresses: of what the lane reads first, and of its barrier
  };

  const Sm90TmaParams& p_;
  bool leader_;
  Stage first_, stage_;
  uint32_t last_full_, to_empty_, parity_ = 0;
  const volatile int* tiles_;
};

// A block's way through slabs of packed weights.
template <class S>
class PackedSlabs {
 public:
  static constexpr int kN = S::kRowBlocks * kSm90Rows;
  // 16-byte units of a tap's weights, of each part: two steps of 16 channels.
  static constexpr uint32_t kPartUnits = kSm90Blocks * kN, kTapUnits = S::Mode::kParts * kPartUnits;

  __device__ PackedSlabs(const Sm90TmaParams& p, const Rings<S>& rings, unsigned char* shared, int lane)
      : p_(p), rings_(rings), leader_(lane == 0) {
    first_ = ptx::matrix_descriptor(ptx::shared_address(shared + p.weights.shared),
                                    S::kRowBlocks * kSm90Rows * 16, 128);
  }

  __device__ void start_tile() {
    if (p_.weights.resident) slab_ = 0;
  }
  __device__ void end_tile() { there_ = p_.weights.resident; }
  __device__ void wait() const {
    if (!there_) ptx::barrier_wait(rings_.weights_full(slab_), p_.weights.resident ? 0 : parity_);
  }
  // The descriptor of the slab's first tap; only its lower half.
  __device__ uint64_t descriptor() const { return first_ + slab_ * p_.sizes.taps * kTapUnits; }
  __device__ uint32_t low() const {
    return static_cast<uint32_t>(first_) + slab_ * p_.sizes.taps * kTapUnits;
  }
  // A slab's weights are free when the first wgmma of the next slab are issued and the earlier ones are over.
  __device__ void advance(int& before) {
    if (p_.weights.resident) {
      ++slab_;
      return;
    }
    before = slab_;
    if (++slab_ == p_.weights.slots) {
      slab_ = 0;
      parity_ ^= 1;
    }
  }
  __device__ void release(int slab) const {
    if (slab >= 0 && leader_) ptx::barrier_arrive(rings_.weights_empty(slab));
  }
  // Called when its wgmma are over.
  __device__ void next() {
    int used = -1;
    advance(used);
    release(used);
  }
  // Weights that nobody has waited for are still on their way.
  __device__ void finish() const {
    if (!p_.weights.resident || there_) return;
    for (int i = 0; i < p_.weights.slots; ++i) ptx::barrier_wait(rings_.weights_full(i), 0);
  }

 private:
  const Sm90TmaParams& p_;
  const Rings<S>& rings_;
  bool leader_;
  uint64_t first_;
  int slab_ = 0;
  uint32_t parity_ = 0;
  bool there_ = false;
};

template <class S>
__device__ inline bool weights_marked(const Sm90TmaParams& p, const Block& block) {
  uint32_t any = 0;
#pragma unroll
  for (int r = 0; r < S::kRowBlocks; ++r) any |= weight_marks(p, block, block.run * S::kRowBlocks + r);
  return any != 0;
}

#endif

}  // namespace tconv::cuda::sm90
