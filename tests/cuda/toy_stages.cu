// The worked example of docs/design/stages.md: an activation, a prologue and a source of one's own among the
// stages of cuda.sm90.dense. The kernel's concepts say whether they fit; tests/gpu/prologue_test.cpp runs the
// prologue.
#include "cuda/sm90/transposed.cuh"
#include "cuda/toy_stages.hpp"

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

// [prologue]
// A slot of the operand: what an element of x becomes before it is multiplied. It keeps zero.
struct LeakyPrologue {
  static constexpr bool kKeepsZero = true;
  TCONV_FUNCTOR float operator()(float v, int channel) const {
    return v < 0 ? (channel % 2 == 0 ? kToyEven : kToyOdd) * v : v;
  }
};

template <class Shape>
struct Leaky : Shape {
  using Prologue = LeakyPrologue;
};
// [prologue]

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
struct ToyStages : GatherStages<S, false> {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __device__ static void bring(const Sm90GatherParams& p, const Block& block, const Rings<S>& rings,
                               unsigned char* shared, int warp) {
    if (warp < kSm90Gatherers) {
      OnesSource<S>(p, block, shared, warp).run(rings);
    } else {
      GatherStages<S, false>::bring(p, block, rings, shared, warp);
    }
  }
#endif
};

extern void (*const toy_kernel)(Sm90GatherParams);
void (*const toy_kernel)(Sm90GatherParams) = kernel<ToyStages<ReluShape<F16, 1, 64>>>;
// [stages]

// Each way that x takes, with the prologue: gathered, to registers, to shared memory; stored, scaled, split.
template <class Mode, int N>
void set_leaky_gather(Sm90Functions& f, int tile) {
  f.gather[0][tile] = kernel<GatherStages<Leaky<GatherShape<Mode, 1, N>>, false>>;
  f.gather[1][tile] = kernel<GatherStages<Leaky<GatherShape<Mode, 1, N>>, true>>;
}
template <class Mode, int Group>
void set_leaky_tma(Sm90Functions& f) {
  f.tma[0][Group] = kernel<TmaStages<Leaky<TmaShape<Mode, 1, Group>>>>;
}

}  // namespace tconv::cuda::sm90

namespace tconv::cuda {

Sm90Kernels leaky_f16() {
  Sm90Kernels k{};
  sm90::set_leaky_gather<F16, 64>(k.plain, 4);
  sm90::set_leaky_tma<F16, 0>(k.plain);
  sm90::set_leaky_tma<F16, 3>(k.plain);
  k.plain.pack = sm90_f16().pack;
  return k;
}

namespace {

// Of float32; Scaled: its operands as float16.
template <class Mode, class Scaled>
Sm90Kernels leaky_float32(const Sm90Functions& plain) {
  Sm90Kernels k{};
  sm90::set_leaky_gather<Mode, 128>(k.plain, 3);
  sm90::set_leaky_gather<Scaled, 64>(k.scaled, 4);
  sm90::set_leaky_gather<Mode, 64>(k.plain, 4);
  sm90::set_leaky_tma<Scaled, 0>(k.scaled);
  sm90::set_leaky_tma<Scaled, 3>(k.scaled);
  k.plain.pack = plain.pack;
  return k;
}

}  // namespace

Sm90Kernels leaky_tf32() {
  return leaky_float32<Tf32, sm90::Fp16Scaled>(sm90_tf32());
}

Sm90Kernels leaky_ieee() {
  return leaky_float32<Ieee, sm90::Fp16Split>(sm90_ieee());
}

}  // namespace tconv::cuda
