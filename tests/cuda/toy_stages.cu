// The worked example of docs/design/stages.md: an activation and a source of one's own among the stages of
// cuda.sm90.dense. It is compiled with the tests, and no more: the kernel's concepts say whether it fits.
#include "cuda/sm90/gather_stages.cuh"

namespace tconv::cuda::sm90 {

// [activation]
// A slot of the epilogue: any function of one number. A NaN stays one.
struct Relu {
  template <class Sum>
  TCONV_FUNCTOR Sum operator()(Sum v) const {
    return v < Sum(0) ? Sum(0) : v;
  }
};

template <class Mode, int RowBlocks, int N>
struct ReluShape : GatherShape<Mode, RowBlocks, N> {
  using Activation = Relu;
};
// [activation]

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// [source]
// x is one everywhere. What a source owes: for each stage of each tile of its block, in the order of the
// loops, every warp waits for empty, writes its part, makes its writes visible to wgmma and arrives at full
// once.
template <class S>
class OnesSource {
 public:
  __device__ OnesSource(const Sm90GatherParams& p, const Block& block, unsigned char* shared, int warp)
      : p_(p), block_(block), to_(ptx::shared_address(shared)), thread_(warp * 32 + threadIdx.x % 32) {}

  __device__ void run(const Rings<S>& rings) const {
    constexpr uint32_t kOnes = 0x3c003c00u;  // two of float16
    RingPlace stage;
    for (Cursor c(p_, block_); c.tiles.there(p_); c.advance(p_, block_)) {
      const uint32_t to = to_ + stage.at * p_.source.stage_bytes;
      ptx::barrier_wait(rings.empty(0, stage.at), stage.parity ^ 1);
      for (int unit = thread_; unit < kSm90Blocks * p_.source.pitch; unit += kSm90Producers) {
        ptx::store_shared16(to + unit * 16, {kOnes, kOnes, kOnes, kOnes});
      }
      ptx::fence_async();
      __syncwarp();
      if (threadIdx.x % 32 == 0) ptx::barrier_arrive(rings.full(0, stage.at));
      stage.advance(p_.source.stages);
    }
  }

 private:
  const Sm90GatherParams& p_;
  const Block& block_;
  uint32_t to_;
  int thread_;
};
// [source]
#endif

// [stages]
// The gathered way with that source.
template <class S>
struct ToyStages : GatherStages<S> {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __device__ static void bring(const Sm90GatherParams& p, const Block& block, const Rings<S>& rings,
                               unsigned char* shared, int warp) {
    if (warp < kSm90Gatherers) {
      OnesSource<S>(p, block, shared, warp).run(rings);
    } else {
      GatherStages<S>::bring(p, block, rings, shared, warp);
    }
  }
#endif
};

extern void (*const toy_kernel)(Sm90GatherParams);
void (*const toy_kernel)(Sm90GatherParams) = kernel<ToyStages<ReluShape<F16, 1, 64>>>;
// [stages]

}  // namespace tconv::cuda::sm90
