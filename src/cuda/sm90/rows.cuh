// The writers' table of a block's packed rows: which output each row is, and its epilogue.
#pragma once

#include "cuda/sm90/row_place.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A packed row, in shared memory.
struct alignas(16) Row {
  int at;       // bytes from a pass's first staged output to its own
  float bias;   // of its cout
  float scale;  // undoes the cout's
  // Both are less than the elements of a staged row. gap: outputs without taps after its own, up to those of
  // the next phase. skew: how many elements after a 16-byte boundary its cout's first output is, if the first
  // cout's is on one.
  uint16_t gap, skew;
};
static_assert(sizeof(Row) == kSm90RowBytes);

// Row i of those at a shared address.
__device__ inline Row load_row(uint32_t rows, int i) {
  const uint4 v = ptx::load_shared16(rows + i * static_cast<uint32_t>(sizeof(Row)));
  return {static_cast<int>(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
          static_cast<uint16_t>(v.w & 0xffffu), static_cast<uint16_t>(v.w >> 16)};
}

// Undoes two scales one after the other, where their product may be no normal number.
struct ScaledTwice {
  float first, second;
  TCONV_FUNCTOR float operator()(float sum, float bias) const { return std::fma(sum * first, second, bias); }
};
template <class S>
using RowScale = std::conditional_t<
    kScaledBlocks<S>, ScaledTwice,
    std::conditional_t<kIsScaled<typename S::Mode>, epilogue::Scaled<float>, epilogue::Unscaled>>;
// What becomes of a row's sums; every output is stored through this. unscale: undoes the tile's scale.
template <class S>
using RowEpilogue = Epilogue<typename S::Mode::T, RowScale<S>, typename S::Activation>;

// Both are powers of two.
__device__ inline ScaledTwice scaled_twice(float row, float tile) {
  const int exponent = exponent_in(row) + exponent_in(tile), half = exponent / 2;
  return {power_of_two(half), power_of_two(exponent - half)};
}
template <class S>
__device__ inline RowEpilogue<S> epilogue_of(const Row& row, float unscale) {
  if constexpr (kScaledBlocks<S>) {
    return {row.bias, scaled_twice(row.scale, unscale)};
  } else if constexpr (kIsScaled<typename S::Mode>) {
    return {row.bias, {row.scale * unscale}};
  } else {
    return {row.bias};
  }
}
// For sums of operands that were not scaled.
template <class S>
__device__ inline RowEpilogue<S> epilogue_of_exact(const Row& row) {
  if constexpr (kScaledBlocks<S>) {
    return {row.bias, {1, 1}};
  } else {
    return epilogue_of<S>(row, 1);
  }
}

template <class S>
__device__ inline int gap_behind(const Sm90Sizes& s, int phase) {
  if (!S::kMaySkew || !s.skewed)
    return phase == s.phases - 1 ? s.stride - 1 - phase * s.dilation : s.dilation - 1;
  const int slot = phase * s.dilation % s.stride;
  int next = s.stride;
  for (int b = 0; b < s.phases; ++b) {
    const int other = b * s.dilation % s.stride;
    if (other > slot) next = min(next, other);
  }
  return next - slot - 1;
}

// Called once, by the threads that multiply, before a barrier. place(inner, phase, there): Row::at for a
// phase of cout `inner` in its row block.
template <class S, class Place>
__device__ inline void make_rows(const typename S::Params& p, const Block& block, unsigned char* shared,
                                 Place place) {
  Row* rows = reinterpret_cast<Row*>(shared + p.writer.shared_rows);
  for (int i = threadIdx.x; i < S::kRowBlocks * kSm90Rows; i += S::kConsumers) {
    const int row_block = block.run * S::kRowBlocks + i / kSm90Rows;
    const RowPlace at(p.sizes, row_block, i % kSm90Rows);
    const int inner = at.inner;
    const bool there = at.there(p.sizes);
    const int64_t channel = int64_t{block.group} * p.sizes.cout_group + at.cout;
    Row r{place(inner, at.phase, there), 0, 1, static_cast<uint16_t>(gap_behind<S>(p.sizes, at.phase)), 0};
    if constexpr (S::kMaySkew) {
      constexpr int kVector = 16 / sizeof(typename S::Mode::T);
      if (!p.writer.by_elements) r.skew = static_cast<uint16_t>(inner * (p.sizes.lout % kVector) % kVector);
    }
    if (kIsScaled<typename S::Mode> && there) {
      const auto* packed = static_cast<const unsigned char*>(p.operands.packed);
      r.scale = reinterpret_cast<const float*>(packed + p.weights.scales_at)[channel];
    }
    if (there) r.bias = load_bias_to_add<typename S::Mode::T>(p.operands.bias, channel);
    rows[i] = r;
  }
}

#endif

}  // namespace tconv::cuda::sm90
