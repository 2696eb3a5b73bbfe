// The kernel of cuda.sm90.dense, for every way of x: persistent, with warps in two roles.
//
//   warps that load     x, by a Source, into a ring of stages; weights, by PackedSource, into a ring of slots
//   warpgroups that multiply, for each of their tiles:   sums = Product(stages, slots);   Writer stores sums
//
// A set of stages W says what each of them is; the concepts below say what each guarantees.
// (gather_stages.cuh and tma_stages.cuh have two of them; params.hpp has what the host tells each stage.)
//
//   W::Shape     types: Mode, Prologue, Activation. Numbers: kThreads, kConsumers (threads that multiply),
//                kConsumer and kProducer (registers of a thread in each role; 0: the same), kBlocksOfSm
//                (blocks that share an SM), kRings (of x), kRowBlocks
//   W::Params    what the host says: an aggregate of one struct for each stage
//   arrivals()   how many arrive at the barriers of each ring
//   prepare()    what rings need in shared memory, by all threads; it may run before the launch before is
//                complete, so it reads nothing but the parameters
//   idle()       true: there is nothing to do here
//   bring()      the part of one loading warp: from the first tile to the last. What reads weights waits for
//                the launch that packs them, if this one runs beside it
//   prepare_rows()  the writer's table of rows, by the threads that multiply
//   Product      next(): the next tile of this warpgroup, or -1. run(sums, tile): its sums, retired: no wgmma
//                is under way, and every stage and slot that was read is released. seen(): what the writer
//                must know in addition to the sums. finish(): nothing is on its way to shared memory any more
//   Writer       made anew for each tile, because its state would otherwise take registers from the sums.
//                store(sums, tile, seen): applies scale and bias, rounds and stores, and repairs outputs to
//                which something contributed that is no product. With a type Later, store<true>(.., later)
//                leaves those in `later` and returns whether there are any, the same in all lanes of a warp,
//                and make_again() repairs them; repairs() says whether a block may need that. finish(), if
//                there is one: stores that went on beside the next products no longer read shared memory
#pragma once

#include <concepts>

#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class P>
concept TellsStages = requires(const P& p) {
  p.operands.x;
  p.sizes.stride;
  p.grid.walkers;
  p.weights.slots;
  p.source.stages;
  p.writer.shared_rows;
  { p.barriers } -> std::convertible_to<int>;
};

// Whole warpgroups multiply, and the block has the registers that both roles ask for.
template <class S>
inline constexpr bool kSoundThreads = S::kConsumers % 128 == 0 && S::kThreads % 32 == 0 &&
                                      S::kThreads >= S::kConsumers + 32 && S::kConsumer % 8 == 0 &&
                                      S::kProducer % 8 == 0 &&
                                      (S::kConsumer == 0 || (S::kThreads % 128 == 0 && S::kProducer >= 24)) &&
                                      ptx::registers_suffice(S::kThreads, S::kConsumers, S::kConsumer,
                                                             S::kProducer, S::kBlocksOfSm);

template <class S>
concept HasMode = requires {
  typename S::Mode::T;
};

template <class S>
concept TileShape = TellsStages<typename S::Params> && HasMode<S> &&
    epilogue::ActivationSlot<typename S::Activation, float> &&
    epilogue::PrologueSlot<typename S::Prologue, float> && kSoundThreads<S>;

template <class P, class Shape>
concept TileProducts = requires(P product, typename P::Sums sums, int tile) {
  { product.next() } -> std::same_as<int>;
  product.run(sums, tile);
  product.seen();
  product.finish();
};

template <class O>
concept RepairsLater = requires {
  typename O::Later;
};
template <class O>
concept FinishesStores = requires {
  O::finish();
};
template <class O, class P>
concept TileWriters = RepairsLater<O> || requires(O writer, P product, typename P::Sums sums, int tile) {
  writer.store(sums, tile, product.seen());
};

template <class W>
concept Stages = TileShape<typename W::Shape> && TileProducts<typename W::Product, typename W::Shape> &&
    TileWriters<typename W::Writer, typename W::Product> &&
    requires(const typename W::Params& p, const Block& block, const Rings<typename W::Shape>& rings,
             unsigned char* shared, int warp) {
  { W::arrivals(p) } -> std::same_as<Arrivals>;
  { W::idle(p, block) } -> std::same_as<bool>;
  W::prepare(p, shared);
  W::bring(p, block, rings, shared, warp);
  W::prepare_rows(p, block, shared);
};

#endif

template <class W>
__global__ void __launch_bounds__(W::Shape::kThreads, W::Shape::kBlocksOfSm)
    kernel(const __grid_constant__ typename W::Params p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  static_assert(Stages<W>);
  using S = typename W::Shape;
  extern __shared__ __align__(128) unsigned char shared[];
  // Shared memory alone, while the launch before still works.
  const Block block(p);
  const Rings<S> rings(p, shared);
  if (threadIdx.x == 0) rings.init(W::arrivals(p));
  W::prepare(p, shared);
  wait_for_launch_before(p.order);
  if (W::idle(p, block)) return;
  __syncthreads();
  if (threadIdx.x >= S::kConsumers) {
    if constexpr (S::kProducer > 0) ptx::fewer_registers<S::kProducer>();
    W::bring(p, block, rings, shared, (threadIdx.x - S::kConsumers) / 32);
    return;
  }
  if constexpr (S::kConsumer > 0) ptx::more_registers<S::kConsumer>();
  wait_for_launch_beside(p.order);
  W::prepare_rows(p, block, shared);
  sync_warps(NamedBarrier::rows, S::kConsumers);
  // The same in all lanes, which the compiler then knows: descriptors stay in uniform registers.
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  typename W::Product product(p, block, rings, shared, warp, lane);
  using Writer = typename W::Writer;
  const auto for_tiles = [&](const auto& store) {
    for (int tile = product.next(); tile >= 0; tile = product.next()) {
      typename W::Product::Sums sums;
      product.run(sums, tile);
      store(sums, tile);
    }
  };
  if constexpr (!RepairsLater<Writer>) {
    for_tiles([&](auto& sums, int tile) {
      Writer(p, block, shared, warp, lane).store(sums, tile, product.seen());
    });
  } else if (Writer::repairs(p, block)) {
    for_tiles([&](auto& sums, int tile) {
      typename Writer::Later later;
      const bool found = Writer(p, block, shared).template store<true>(sums, tile, product.seen(), later);
      if (found) Writer::make_again(p, block, shared, tile, later);
    });
  } else {
    // A loop of its own, in which nothing is spilled for the sake of repairs: where two blocks share an SM,
    // tiles of 128 columns take 1.05 to 1.2 times as long with one loop for both.
    for_tiles([&](auto& sums, int tile) {
      typename Writer::Later later;
      Writer(p, block, shared).template store<false>(sums, tile, product.seen(), later);
    });
  }
  if constexpr (FinishesStores<Writer>) Writer::finish();
  product.finish();
#endif
}

}  // namespace tconv::cuda::sm90
