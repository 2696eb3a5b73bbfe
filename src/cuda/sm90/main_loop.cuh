// The main loop of a warpgroup if x comes by tensor copies: it computes a tile's sums over slabs and taps.
// Operands of x lie in registers (RegisterLoop) or in shared memory (SharedLoop); products are single or
// promoted.
#pragma once

#include "cuda/sm90/operand_shared.cuh"
#include "cuda/sm90/product_promoted.cuh"
#include "cuda/sm90/product_single.cuh"
#include "cuda/sm90/row_place.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Whether a lane's sum i is one of an output.
template <class S>
__device__ inline bool is_output(const Sm90TmaParams& p, int tile, int i) {
  const TilePlace at = TileRegisters<S>::place({static_cast<int>(threadIdx.x % 32), i});
  const int position = static_cast<int>(threadIdx.x / 32 % 4) * S::kWarpPositions + at.row;
  const auto [n, of_sample, column] = place_of(p, tile);
  return n < p.sizes.samples && has_output(p, Block(p).run * S::kRowBlocks + at.column / kSm90Rows,
                                           at.column % kSm90Rows, p.columns.first_u + column + position);
}

template <class S>
using TileProduct = std::conditional_t<S::kSplit, PromotedProduct<S>, SingleProduct<S>>;

//   for each half of each slab, 16 channels:
//     raw stage -> registers -> one fragment, the operands of all taps
//     multiply the fragment by the packed weights of all taps
template <class S>
class RegisterLoop {
  using Product = TileProduct<S>;
  using Slabs = PackedSlabs<S>;

 public:
  using Sums = TileSums<S>;

  __device__ RegisterLoop(const Sm90TmaParams& p, const Block& block, const Rings<S>& rings,
                          unsigned char* shared, int warp, int lane)
      : p_(p),
        x_(p, rings, shared, warp / 4, lane,
           lane % 4 * 2 * p.source.pitch +
               (p.source.halo + warp % 4 * S::kWarpPositions + lane / 4 * S::kOwn) *
                   static_cast<int>(sizeof(typename S::Mode::T))),
        weights_(p, rings, shared, lane),
        weights_marked_(weights_marked<S>(p, block)),
        first_channel_(block.group * p.sizes.cin_group + lane % 4 * 2) {}

  __device__ int next() const { return x_.next_tile(); }
  __device__ void finish() const { weights_.finish(); }
  __device__ TileSeen seen() const { return {reader_.marked(), reader_.unscale(), weights_marked_}; }

  __device__ void run(Sums& sums, int tile) {
    Product product(sums);
    if constexpr (Product::kPending) {
      run_pending(product);
    } else {
      run_in_turn(product);
    }
    reader_.end_tile(sums, reader_.take_tiny(), p_.marks.least_sum,
                     [&](int i) { return is_output<S>(p_, tile, i); });
  }

 private:
  using RawWords = Raw<typename S::Mode::T, S::kGroup, S::kOwn>;

  // Two fragments alternate: one is converted while the wgmma of the other are under way. The loads of its
  // raw words were issued before those wgmma.
  __device__ void run_pending(Product& product) {
    RawWords raw;
    Fragment<S::kGroup> even, odd;
    raw.load(x_.address(), p_.source.pitch);
    int channel = 0;
    prepare(raw, channel);
    reader_.start_tile(raw);
    reader_.convert(even, raw);
    int before = -1;
    weights_.start_tile();
#pragma unroll 1
    for (int left = p_.grid.slabs;;) {
      weights_.wait();
      const uint64_t b = weights_.descriptor();
      uint32_t done = x_.full();
      if constexpr (S::kChannels == 16) {
        next_stage(raw);
      } else {
        raw.load(x_.address() + 16 * p_.source.pitch, p_.source.pitch);
      }
      product.multiply(even, b, true);
      if (S::kChannels == 16) x_.release(done);
      ptx::wgmma_wait<1>();
      weights_.release(before);
      prepare(raw, channel);
      reader_.convert(odd, raw);
      done = x_.full();
      const bool more = --left > 0;
      if (more) next_stage(raw);
      product.multiply(odd, b + Slabs::kTapUnits / 2, false);
      x_.release(done);
      weights_.advance(before);
      if (!more) break;
      ptx::wgmma_wait<1>();
      prepare(raw, channel);
      reader_.convert(even, raw);
    }
    x_.advance();
    product.wait();
    weights_.release(before);
    weights_.end_tile();
  }

  __device__ void run_in_turn(Product& product) {
    RawWords raw;
    SplitFragment<S::kGroup> f;
    raw.load(x_.address(), p_.source.pitch);
    int channel = 0;
    prepare(raw, channel);
    reader_.start_tile(raw);
    weights_.start_tile();
#pragma unroll 1
    for (int left = p_.grid.slabs; left > 0; --left) {
      weights_.wait();
      const uint64_t b = weights_.descriptor();
      reader_.convert(f, raw);
      raw.load(x_.address() + 16 * p_.source.pitch, p_.source.pitch);
      product.multiply(f, b, true);
      product.wait();
      prepare(raw, channel);
      reader_.convert(f, raw);
      const uint32_t done = x_.full();
      if (left > 1) next_stage(raw);
      product.multiply(f, b + Slabs::kPartUnits / 2, false);
      x_.release(done);
      product.wait();
      if (left > 1) prepare(raw, channel);
      product.promote();
      weights_.next();
    }
    x_.advance();
    weights_.end_tile();
    product.finish();
  }

  // Applies the prologue to 16 channels; each call takes the next 16.
  __device__ void prepare(RawWords& raw, int& channel) const {
    if constexpr (kHasPrologue<typename S::Prologue>) {
      raw.prepare(typename S::Prologue{}, first_channel_ + channel);
      channel += 16;
    }
  }

  // Callers release the previous stage only after its wgmma have been issued: until the operands
  // made of its words are in registers, loads from it may be under way.
  __device__ void next_stage(RawWords& raw) {
    x_.advance();
    x_.wait();
    raw.load(x_.address(), p_.source.pitch);
  }

  const Sm90TmaParams& p_;
  RawStages<S> x_;
  PackedSlabs<S> weights_;
  bool weights_marked_;
  int first_channel_;  // the lane's first channel of x
  Reader<typename S::Mode, S::kGroup> reader_;
};

//   for each slab:
//     for each tap: multiply its operands; one of two buffers holds those of all taps
//     meanwhile convert the next slab's operands into the other buffer
template <class S>
class SharedLoop {
  using Product = TileProduct<S>;
  using Slabs = PackedSlabs<S>;

 public:
  using Sums = TileSums<S>;

  __device__ SharedLoop(const Sm90TmaParams& p, const Block& block, const Rings<S>& rings,
                        unsigned char* shared, int warp, int lane)
      : p_(p),
        x_(p, block, rings, shared, warp, lane),
        weights_(p, rings, shared, lane),
        weights_marked_(weights_marked<S>(p, block)) {}

  __device__ int next() const { return x_.next_tile(); }
  __device__ void finish() const { weights_.finish(); }
  __device__ TileSeen seen() const { return {x_.marked(), x_.unscale(), weights_marked_}; }

  __device__ void run(Sums& sums, int tile) {
    Product product(sums);
    x_.start_tile(tile);
    x_.fill();
    x_.sync();
    weights_.start_tile();
#pragma unroll 1
    for (int left = p_.grid.slabs; left > 0; --left) {
      weights_.wait();
      TapOperands at{x_.low(), weights_.low()};
      if constexpr (Product::kTaps == 0) {
        multiply(product, at, p_.sizes.taps, left > 1);
      } else {
#pragma unroll 1
        for (int taps = p_.sizes.taps; taps > 0; taps -= Product::kTaps) {
          multiply(product, at, min(taps, Product::kTaps), taps <= Product::kTaps && left > 1);
        }
      }
      weights_.next();
      x_.sync();  // the next operands are complete, and the current ones are free
    }
    weights_.end_tile();
    product.finish();
    x_.end_tile(sums, [&](int i) { return is_output<S>(p_, tile, i); });
  }

 private:
  __device__ void multiply(Product& product, TapOperands& at, int taps, bool fill) {
#pragma unroll 1
    for (int tap = 0; tap < taps; ++tap) {
      product.multiply(x_, at, tap == 0);
      at.x -= p_.sizes.step;
      at.w += Slabs::kTapUnits;
    }
    if (fill) x_.fill();
    product.wait();
    product.promote();
  }

  const Sm90TmaParams& p_;
  SharedOperand<S> x_;
  PackedSlabs<S> weights_;
  bool weights_marked_;
};

template <class S>
using TileLoop = std::conditional_t<S::kGroup == 0, SharedLoop<S>, RegisterLoop<S>>;

#endif

}  // namespace tconv::cuda::sm90
