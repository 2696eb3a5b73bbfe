// The operands of the tensor cores' arithmetics (arithmetic.hpp), and their products. An arithmetic is a
// type:
//
//   T, Sum, Word      of storage, of sums, and an unsigned word of T's size
//   kShape            its ArithmeticShape; kParts, kUnit, kDepth, kSlab of it
//   operand(v, parts) a unit of x as parts of operands: rounded, split, or as it is
//   weight(v, parts)  a unit of weights, when it is packed
//   too_small(v)      whether a unit of x holds a number too small for the parts
//   special(v)        the same for a unit of weights; true also if a weight is not finite
#pragma once

#include "cuda/device/arithmetic.hpp"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/ptx/sm80.cuh"

namespace tconv::cuda {

constexpr uint32_t kInfBits = 0x7f800000u;
constexpr uint32_t kTf32Mask = 0xffffe000u;
constexpr uint32_t kRoundsToInf = 0x7f7ff000u;  // the least magnitude that does

// Rounds to 10 mantissa bits, to nearest, ties away from zero, like cvt.rna.tf32; but finite numbers stay
// finite (they keep their upper bits), and NaN stays NaN (an mma reads only the upper 19 bits).
__device__ inline uint32_t to_tf32(uint32_t u) {
  const uint32_t magnitude = u & 0x7fffffffu;
  uint32_t r = u + 0x1000u;
  if (magnitude >= kRoundsToInf) r = magnitude > kInfBits ? u | 0x400000u : u;
  return r & kTf32Mask;
}

// Not zero, but too small for two tf32 parts to hold all its bits. 2^-100 leaves some room.
__device__ inline bool too_small_to_split(uint32_t u) {
  return (u & 0x7fffffffu) - 1u < 0x0d800000u - 1u;
}

// u = hi + lo, to within 2^-23 of u; Inf and NaN go to lo.
__device__ inline void split_tf32(uint32_t u, uint32_t& hi, uint32_t& lo) {
  const bool finite = (u & 0x7fffffffu) < kInfBits;
  const uint32_t rounded = to_tf32(u);
  hi = finite ? rounded : 0u;
  const float rest = __uint_as_float(u) - __uint_as_float(rounded);
  lo = finite ? to_tf32(__float_as_uint(rest)) : rounded;
}

// The same for a weight: one that is too small goes to lo with all its bits, where exact.cuh reads them.
__device__ inline void split_weight(uint32_t u, uint32_t& hi, uint32_t& lo) {
  split_tf32(u, hi, lo);
  if (too_small_to_split(u)) {
    hi = 0u;
    lo = u;
  }
}

template <class T>
struct Bits {
  using Word = uint32_t;
};
template <>
struct Bits<__half> {
  using Word = uint16_t;
};
template <>
struct Bits<__nv_bfloat16> {
  using Word = uint16_t;
};
template <>
struct Bits<double> {
  using Word = unsigned long long;
};

template <class Storage, Arithmetic kArithmetic>
struct ArithmeticBase {
  using T = Storage;
  using Sum = Accumulator<T>;
  using Word = typename Bits<T>::Word;
  static constexpr ArithmeticShape kShape = shape_of(kArithmetic);
  static constexpr int kParts = kShape.parts, kUnit = kShape.unit(), kDepth = kShape.depth(),
                       kSlab = kShape.slab();
  static_assert(kShape.element == sizeof(T) && kShape.sum == sizeof(Sum));
  __device__ static bool too_small(const Word (&)[kUnit]) { return false; }
  __device__ static bool special(const Word (&)[kUnit]) { return false; }
};

__device__ inline uint4 unit_of(const uint32_t (&v)[4]) {
  return {v[0], v[1], v[2], v[3]};
}
__device__ inline uint4 unit_of(const uint16_t (&v)[8]) {
  uint4 u;
  u.x = v[0] | static_cast<uint32_t>(v[1]) << 16;
  u.y = v[2] | static_cast<uint32_t>(v[3]) << 16;
  u.z = v[4] | static_cast<uint32_t>(v[5]) << 16;
  u.w = v[6] | static_cast<uint32_t>(v[7]) << 16;
  return u;
}
__device__ inline uint4 unit_of(const unsigned long long (&v)[2]) {
  return {static_cast<uint32_t>(v[0]), static_cast<uint32_t>(v[0] >> 32), static_cast<uint32_t>(v[1]),
          static_cast<uint32_t>(v[1] >> 32)};
}

// The largest magnitude of four numbers; NaN if one of them is.
__device__ inline float largest_of(const uint32_t (&v)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float a, b;
  asm("max.NaN.f32 %0, %1, %2;\n"
      : "=f"(a)
      : "f"(fabsf(__uint_as_float(v[0]))), "f"(fabsf(__uint_as_float(v[1]))));
  asm("max.NaN.f32 %0, %1, %2;\n"
      : "=f"(b)
      : "f"(fabsf(__uint_as_float(v[2]))), "f"(fabsf(__uint_as_float(v[3]))));
  asm("max.NaN.f32 %0, %1, %2;\n" : "=f"(a) : "f"(a), "f"(b));
  return a;
#else
  return __uint_as_float(kInfBits);
#endif
}

struct Tf32 : ArithmeticBase<float, Arithmetic::tf32> {
  // The tensor core reads the upper 19 bits, so rounding is an addition, except for the largest numbers,
  // infinities and NaN.
  __device__ static void operand(const uint32_t (&v)[4], uint4 (&parts)[1]) {
    if (largest_of(v) < __uint_as_float(kRoundsToInf)) {
      parts[0] = {v[0] + 0x1000u, v[1] + 0x1000u, v[2] + 0x1000u, v[3] + 0x1000u};
    } else {
      parts[0] = {to_tf32(v[0]), to_tf32(v[1]), to_tf32(v[2]), to_tf32(v[3])};
    }
  }
  // The lower bits are cleared, because exact sums read weights as numbers.
  __device__ static void weight(const uint32_t (&v)[4], uint4 (&parts)[1]) {
    parts[0] = {to_tf32(v[0]), to_tf32(v[1]), to_tf32(v[2]), to_tf32(v[3])};
  }
};
struct Ieee : ArithmeticBase<float, Arithmetic::ieee> {
  __device__ static bool too_small(const uint32_t (&v)[4]) {
    return too_small_to_split(v[0]) || too_small_to_split(v[1]) || too_small_to_split(v[2]) ||
           too_small_to_split(v[3]);
  }
  // For weights: too small, or not finite.
  __device__ static bool special(const uint32_t (&v)[4]) {
    bool infinite = false;
    for (int i = 0; i < 4; ++i) infinite = infinite || (v[i] & 0x7fffffffu) >= kInfBits;
    return infinite || too_small(v);
  }
  __device__ static void operand(const uint32_t (&v)[4], uint4 (&parts)[2]) {
    split_tf32(v[0], parts[0].x, parts[1].x);
    split_tf32(v[1], parts[0].y, parts[1].y);
    split_tf32(v[2], parts[0].z, parts[1].z);
    split_tf32(v[3], parts[0].w, parts[1].w);
  }
  __device__ static void weight(const uint32_t (&v)[4], uint4 (&parts)[2]) {
    split_weight(v[0], parts[0].x, parts[1].x);
    split_weight(v[1], parts[0].y, parts[1].y);
    split_weight(v[2], parts[0].z, parts[1].z);
    split_weight(v[3], parts[0].w, parts[1].w);
  }
};
// Operands as they are stored.
template <class T, Arithmetic kArithmetic>
struct Stored : ArithmeticBase<T, kArithmetic> {
  using Base = ArithmeticBase<T, kArithmetic>;
  __device__ static void operand(const typename Base::Word (&v)[Base::kUnit], uint4 (&parts)[1]) {
    parts[0] = unit_of(v);
  }
  __device__ static void weight(const typename Base::Word (&v)[Base::kUnit], uint4 (&parts)[1]) {
    operand(v, parts);
  }
};
using F16 = Stored<__half, Arithmetic::f16>;
using Bf16 = Stored<__nv_bfloat16, Arithmetic::bf16>;
using F64 = Stored<double, Arithmetic::f64>;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// d (16x8) += a (16 x depth) * b (depth x 8). b: two words a part; of f64 one double.
template <class A>
__device__ inline void multiply(typename A::Sum (&d)[4], const uint4 (&a)[A::kParts],
                                const uint2 (&b)[A::kParts]) {
  if constexpr (std::is_same_v<A, Tf32>) {
    ptx::mma_tf32(d, a[0], b[0].x, b[0].y);
  } else if constexpr (std::is_same_v<A, Ieee>) {
    float fresh[4] = {0, 0, 0, 0};
    ptx::mma_tf32(fresh, a[1], b[0].x, b[0].y);
    ptx::mma_tf32(fresh, a[0], b[1].x, b[1].y);
    ptx::mma_tf32(fresh, a[0], b[0].x, b[0].y);
#pragma unroll
    for (int i = 0; i < 4; ++i) d[i] += fresh[i];
  } else if constexpr (std::is_same_v<A, F16>) {
    ptx::mma_f16(d, a[0], b[0].x, b[0].y);
  } else if constexpr (std::is_same_v<A, Bf16>) {
    ptx::mma_bf16(d, a[0], b[0].x, b[0].y);
  } else {
    const double x = __hiloint2double(static_cast<int>(b[0].y), static_cast<int>(b[0].x));
    ptx::mma_f64(d[0], d[1], __hiloint2double(static_cast<int>(a[0].y), static_cast<int>(a[0].x)), x);
    ptx::mma_f64(d[2], d[3], __hiloint2double(static_cast<int>(a[0].w), static_cast<int>(a[0].z)), x);
  }
}

#endif

}  // namespace tconv::cuda
