// GatherSource: x, element by element through the registers of seven warps, into one ring of stages. It makes
// operands on the way: rounds, splits or scales each element once.
#pragma once

#include "cuda/sm90/fp16_scale.cuh"
#include "cuda/sm90/gather_loads.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class GatherSource : GatherLoads<S> {
 public:
  using typename GatherLoads<S>::Mode;

  __device__ GatherSource(const Sm90GatherParams& p, const Block& block, unsigned char* shared)
      : GatherLoads<S>(p, block),
        first_channel_(block.group * p.sizes.cin_group),
        shared_(shared),
        warp_((threadIdx.x - kSm90Consumers) / 32) {}

  // Loads are queued before the wait for an empty stage, so they are on their way meanwhile.
  __device__ void run(const Block& block, const Rings<S>& rings) {
    const int pieces = this->pieces();
    const uint32_t shared = ptx::shared_address(shared_);
    RingPlace stage;
    for (Cursor c(p_, block); c.tiles.there(p_); c.advance(p_, block)) {
      this->aim(c);
      const uint32_t to = shared + stage.at * p_.source.stage_bytes;
      for (int first = warp_; first < pieces; first += kRounds * kWarps) {
        uint32_t batch[kRounds][Mode::kUnit];
        this->load(batch, first, pieces);
        if constexpr (kHasPrologue<typename S::Prologue>) prepare(batch, first, pieces);
        if constexpr (kScaled) {
          if (first == warp_ && c.starts_tile(block)) choose_scale(batch, first, pieces);
        }
        if (first == warp_) ptx::barrier_wait(rings.empty(0, stage.at), stage.parity ^ 1);
        store(batch, to, first, pieces);
      }
      ptx::fence_async();
      if constexpr (Mode::kParts == 2 || kScaled) tell(stage.at);
      __syncwarp();
      if (threadIdx.x % 32 == 0) ptx::barrier_arrive(rings.full(0, stage.at));
      stage.advance(p_.source.stages);
    }
  }

 private:
  using typename GatherLoads<S>::T;
  using typename GatherLoads<S>::Batch;
  using GatherLoads<S>::kWarps, GatherLoads<S>::kPositions, GatherLoads<S>::kRounds, GatherLoads<S>::p_;
  using GatherLoads<S>::channel_, GatherLoads<S>::find;
  static constexpr bool kScaled = kIsScaled<Mode>;

  // Applies the prologue to x.
  __device__ void prepare(Batch& batch, int first, int pieces) const {
    this->for_pieces(first, pieces, [&](int r, int block, int slot) {
      const int channel = first_channel_ + channel_ + block * Mode::kUnit;
#pragma unroll
      for (int j = 0; j < Mode::kUnit; ++j)
        batch[r][j] = word_behind<T>(typename S::Prologue{}, batch[r][j], channel + j);
    });
  }

  __device__ void store(const Batch& batch, uint32_t stage, int first, int pieces) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int piece = first + r * kWarps;
      if (piece >= pieces) break;
      int block, slot;
      find(piece, block, slot);
      if (slot >= p_.source.width) break;
      const uint32_t to = stage + (block * p_.source.pitch + slot) * 16;
      if constexpr (kPositions == 2) {
        const uint32_t(&v)[8] = batch[r];
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          const uint32_t which = q == 0 ? 0x5410 : 0x7632;
          ptx::store_shared16(to + q * 16, {__byte_perm(v[0], v[1], which), __byte_perm(v[2], v[3], which),
                                            __byte_perm(v[4], v[5], which), __byte_perm(v[6], v[7], which)});
        }
      } else if constexpr (kScaled) {
        const uint4 unit = hold(batch[r]);
        ptx::store_shared16(to, unit);
        if constexpr (Mode::kParts == 2) {
          ptx::store_shared16(to + kSm90Blocks * p_.source.pitch * 16,
                              rest_of_unit(batch[r], scale_.up(), unit));
        }
      } else {
        uint4 parts[Mode::kParts];
        Mode::operand(batch[r], parts);
        if constexpr (Mode::kParts == 2) mark_ |= Mode::too_small(batch[r]) ? 1 : 0;
#pragma unroll
        for (int q = 0; q < Mode::kParts; ++q) {
          ptx::store_shared16(to + q * kSm90Blocks * p_.source.pitch * 16, parts[q]);
        }
      }
    }
  }

  // The tile's scale, from the largest finite magnitude in the first batch of its first stage.
  __device__ void choose_scale(const Batch& batch, int first, int pieces) {
    uint32_t most = 0;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      if (first + r * kWarps >= pieces) break;
#pragma unroll
      for (int j = 0; j < Mode::kUnit; ++j) most = max(most, finite_magnitude(batch[r][j]));
    }
    most = __reduce_max_sync(0xffffffffu, most);
    turn_ ^= 1;
    volatile uint32_t* agreed = reinterpret_cast<uint32_t*>(shared_ + p_.source.shared_scale) + 8 * turn_;
    if (threadIdx.x % 32 == 0) agreed[warp_] = most;
    sync_warps(NamedBarrier::scale, kSm90Producers);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) most = max(most, agreed[w]);
    scale_ = Fp16Scale(most);
  }

  // 8 numbers in float16. Whatever is not zero should lie in [2^-14, 2^15] after scaling.
  __device__ uint4 hold(const uint32_t (&v)[8]) {
    constexpr uint32_t kRange = 2u * (29u << 23);
    const uint32_t least = scale_.twice_least();
    uint32_t furthest = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) furthest = max(furthest, 2u * v[j] - least);
    if (furthest > kRange) {
      uint32_t most = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        // Hidden from the compiler, which would otherwise compute some of this for every unit: 4% longer.
        uint32_t again = v[j];
        asm volatile("" : "+r"(again));
        const uint32_t twice = 2u * again;
        mark_ += twice - 1u < least - 1u ? 1 : 0;
        most = max(most, twice);
      }
      mark_ += most > least + kRange ? kSm90Beyond : 0;
    }
    return scaled_unit(v, scale_.up());
  }

  // Reports what the warp saw in the stage, and the tile's scale.
  __device__ void tell(int stage) {
    uint32_t marked = 0;
    if (__any_sync(0xffffffffu, mark_ != 0)) {
      marked = min(__reduce_add_sync(0xffffffffu, min(mark_, kSm90Beyond)), kSm90Beyond);
      mark_ = 0;
    }
    if (threadIdx.x % 32 != 0) return;
    shared_[p_.source.shared_marks + 8 * stage + warp_] = static_cast<unsigned char>(marked);
    if constexpr (kScaled) {
      if (warp_ == 0) reinterpret_cast<float*>(shared_ + p_.source.shared_scale)[16 + stage] = scale_.down();
    }
  }

  int first_channel_;  // of x, the group's
  unsigned char* shared_;
  int warp_;
  // Some operand is too small to split; or how many are below float16's normal range, kSm90Beyond for one
  // above.
  uint32_t mark_ = 0;
  int turn_ = 0;
  Fp16Scale scale_;
};

#endif

}  // namespace tconv::cuda::sm90
