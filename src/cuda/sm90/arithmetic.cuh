// What this family adds to the arithmetics of cuda/device/arithmetic.cuh: float32 scaled to float16.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/device/ptx/sm90.cuh"
#include "cuda/sm90/dense.hpp"

namespace tconv::cuda::sm90 {

// Contiguous words that one load brings.
template <class Word, int Count>
struct alignas(sizeof(Word) * Count) Words {
  Word v[Count];
};

// tf32 with its 10 mantissa bits held in float16, at twice the rate. One power of two for each tile of x and
// one for each cout keep operands in float16's normal range; a tile with a number outside that range is
// marked, and computed in Tf32 by a second launch.
struct Fp16Scaled {
  using T = float;
  using Sum = float;
  using Word = uint32_t;
  static constexpr int kParts = 1, kUnit = 8, kDepth = 16, kSlab = 32;
};

// ieee float32 in two parts of float16, of 11 bits each: v*scale = hi + lo/2^11 to within 2^-22. Scales and
// marks are as for Fp16Scaled; marked tiles are computed in Ieee.
struct Fp16Split {
  using T = float;
  using Sum = float;
  using Word = uint32_t;
  static constexpr int kParts = 2, kUnit = 8, kDepth = 16, kSlab = 32;
  static constexpr float kUp = 0x1p11f, kDown = 0x1p-11f;
};

template <class Mode>
inline constexpr bool kIsScaled = std::is_same_v<Mode, Fp16Scaled> || std::is_same_v<Mode, Fp16Split>;

// By which tails (blocked_scale.cuh) are multiplied, so that they are below 2^14.
inline constexpr float kTailUp = 0x1p39f, kTailDown = 0x1p-39f;

// Two numbers times a power of two, in float16.
__device__ inline uint32_t scaled_pair(uint32_t left, uint32_t right, float scale) {
  const __half2 both = __floats2half2_rn(__uint_as_float(left) * scale, __uint_as_float(right) * scale);
  return *reinterpret_cast<const uint32_t*>(&both);
}

// The same for 8 numbers; and what that leaves of them (Fp16Split): exact, then rounded.
__device__ inline uint4 scaled_unit(const uint32_t (&v)[8], float scale) {
  return {scaled_pair(v[0], v[1], scale), scaled_pair(v[2], v[3], scale), scaled_pair(v[4], v[5], scale),
          scaled_pair(v[6], v[7], scale)};
}
__device__ inline uint32_t rest_of_pair(uint32_t left, uint32_t right, float scale, uint32_t taken) {
  const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&taken));
  return scaled_pair(__float_as_uint(fmaf(__uint_as_float(left), scale, -both.x)),
                     __float_as_uint(fmaf(__uint_as_float(right), scale, -both.y)), Fp16Split::kUp);
}
__device__ inline uint4 rest_of_unit(const uint32_t (&v)[8], float scale, const uint4& taken) {
  return {rest_of_pair(v[0], v[1], scale, taken.x), rest_of_pair(v[2], v[3], scale, taken.y),
          rest_of_pair(v[4], v[5], scale, taken.z), rest_of_pair(v[6], v[7], scale, taken.w)};
}

// For the bits of magnitudes: the exponent by which a scale is chosen, limited so that scale, 1/scale and the
// limits are normal numbers.
__device__ inline int scale_exponent(uint32_t most) {
  return most == 0 ? 127 : min(max(static_cast<int>(most >> 23), 67), 187);
}

// 2^exponent, of a normal number; and the exponent of one.
__device__ inline float power_of_two(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(127 + exponent) << 23);
}
__device__ inline int exponent_in(float power) {
  return static_cast<int>(__float_as_uint(power) >> 23) - 127;
}

// For the bits of the largest finite magnitude of some numbers: which power of two is divided out so that it
// comes to lie in [2^14, 2^15). At least -126, so that 2^-exponent and half of the sum of two exponents are
// those of normal numbers.
__device__ inline int exponent_of(uint32_t most) {
  return most == 0 ? 0 : max(static_cast<int>(most >> 23) - 127 - 14, -126);
}

// From the bits of a number; 0 if it is not finite.
__device__ inline uint32_t finite_magnitude(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fffffffu;
  return magnitude < kInfBits ? magnitude : 0u;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// How wgmma reads the operands.
template <class Mode>
inline constexpr ptx::Operand kOperand = std::is_same_v<Mode, F16> || kIsScaled<Mode> ? ptx::Operand::f16
                                         : std::is_same_v<Mode, Bf16>                 ? ptx::Operand::bf16
                                                                                      : ptx::Operand::tf32;
#endif

}  // namespace tconv::cuda::sm90
