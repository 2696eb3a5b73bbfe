// Operands of mma.sync that come from memory as they are: how float32 is rounded or split on the way, and
// where that goes wrong.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/device/nan.cuh"

namespace tconv::cuda::sm80 {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// A float32 as the tensor cores take it: they read the upper 19 bits, so rounding is an addition. It is wrong
// for infinities and NaN, which `Unfit` notes, and turns the largest numbers into infinities.
template <class A>
__device__ __forceinline__ void prepare(const uint32_t u, uint32_t (&parts)[A::kParts]) {
  parts[0] = u + 0x1000u;
  if constexpr (A::kParts == 2) {
    parts[0] &= kTf32Mask;
    parts[1] = __float_as_uint(__uint_as_float(u) - __uint_as_float(parts[0])) + 0x1000u;
  }
}

// Notes operands that are too small for their parts, or infinite or NaN.
template <class A>
class Unfit {
 public:
  // chain: separate sums, so that they do not wait for each other.
  __device__ __forceinline__ void note(uint32_t u, int chain) {
    poison_[chain] = fmaf(__uint_as_float(u), 0.f, poison_[chain]);
    if constexpr (A::kParts == 2) least_ = min(least_, u + u - 1u);
  }
  __device__ bool any() const {
    return (A::kParts == 2 && least_ < kLeast) || poison_[0] + poison_[1] + poison_[2] + poison_[3] != 0;
  }

 private:
  // Twice the bits of a magnitude, less one, which makes zero the largest.
  static constexpr uint32_t kLeast = 2 * 0x0d800000u - 1u;

  uint32_t least_ = ~0u;
  float poison_[4] = {};
};

// Four words of weights, as ldmatrix or four loads of a lane return them, become an A fragment for each part.
template <class A>
__device__ __forceinline__ void prepare_weights(const uint4& raw, Unfit<A>& unfit, uint4 (&a)[A::kParts]) {
  const uint32_t v[4] = {raw.x, raw.y, raw.z, raw.w};
  uint32_t parts[4][A::kParts];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    unfit.note(v[e], 2 + e % 2);
    prepare<A>(v[e], parts[e]);
  }
#pragma unroll
  for (int q = 0; q < A::kParts; ++q) a[q] = {parts[0][q], parts[1][q], parts[2][q], parts[3][q]};
}

// Two words of x become a B fragment for each part.
template <class A>
__device__ __forceinline__ void prepare_column(uint32_t low, uint32_t high, Unfit<A>& unfit,
                                               uint2 (&b)[A::kParts]) {
  unfit.note(low, 0);
  unfit.note(high, 1);
  uint32_t x[A::kParts], y[A::kParts];
  prepare<A>(low, x);
  prepare<A>(high, y);
#pragma unroll
  for (int q = 0; q < A::kParts; ++q) b[q] = {x[q], y[q]};
}

// Waits until the oldest of 2 to 4 stages is complete: all but the latest stages - 2 groups of copies.
__device__ __forceinline__ void wait_for_stage(int stages) {
  if (stages <= 2) {
    ptx::copy_async_wait<0>();
  } else if (stages == 3) {
    ptx::copy_async_wait<1>();
  } else {
    ptx::copy_async_wait<2>();
  }
}

// Sums that may be wrong: NaN, and infinities, which the largest numbers become when they are rounded.
template <int kNi, int kMi>
__device__ __forceinline__ bool any_infinite(const float (&sums)[kMi][kNi][MmaAccumulator::kRegisters]) {
  float poison = 0;
#pragma unroll
  for (int i = 0; i < kMi; ++i) {
#pragma unroll
    for (int j = 0; j < kNi; ++j) {
#pragma unroll
      for (const float sum : sums[i][j]) poison = fmaf(sum, 0.f, poison);
    }
  }
  return poison != 0;
}

// A factor as the tensor cores see it.
template <class A>
__device__ inline float factor(typename A::T v) {
  const float wide = widen(v);
  return std::is_same_v<A, Tf32> ? __uint_as_float(to_tf32(__float_as_uint(wide))) : wide;
}

#endif

}  // namespace tconv::cuda::sm80
