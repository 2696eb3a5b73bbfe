// What differs from mode to mode in cuda.sm80.weight: how words of shared memory become operands, and the
// mma.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/device/ptx/sm80.cuh"
#include "cuda/sm80/weight.hpp"

namespace tconv::cuda::sm80::weight {

// Rounds to 10 mantissa bits, to nearest, ties away from zero. Finite numbers beyond the largest overflow.
__device__ inline uint32_t to_tf32(uint32_t u) {
  uint32_t r = u;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(__uint_as_float(u)));
#endif
  return r;
}

// The rest of a split operand is multiplied by 2^13 until its products are added, so that it keeps all its
// bits whenever the operand itself is a number, subnormal or not. Both parts are rounded as by to_tf32(), in
// five instructions instead of thirteen: an mma reads the upper 19 bits of lo alone, and a number that rounds
// to infinity, an infinity or a NaN makes lo a NaN, so that the sum is computed again (Ieee::kRounds).
constexpr float kUp = 8192.0f, kDown = 1 / kUp;
__device__ inline void split(uint32_t u, uint32_t& hi, uint32_t& lo) {
  constexpr uint32_t kHalf = 0x1000, kUpper = 0xffffe000;
  hi = u + kHalf & kUpper;
  lo = __float_as_uint((__uint_as_float(u) - __uint_as_float(hi)) * kUp) + kHalf;
}

__device__ inline double load_double(uint32_t from) {
  double v;
  asm volatile("ld.shared.f64 %0, [%1];\n" : "=d"(v) : "r"(from));
  return v;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// kRounds: the value that is multiplied may be infinite although operand() is finite.
//
// A: 16 rows of x, 32 bytes of positions each; B: 8 columns of dy likewise, positions
// `stride` elements apart. The third argument of A: bytes of 8 rows of x.

// Of modes whose operands are multiplied once.
struct WholeOperands {
  using Sum = float;
  static constexpr bool kCross = false, kRounds = false;
  struct A {
    uint4 v;
  };
  struct B {
    uint32_t v[2];
  };
};

struct Tf32 : WholeOperands {
  using T = float;
  __device__ static void load(A& a, uint32_t at, int) {
    a.v = ptx::load_matrices(at);
    a.v = {to_tf32(a.v.x), to_tf32(a.v.y), to_tf32(a.v.z), to_tf32(a.v.w)};
  }
  __device__ static void load(B& b, uint32_t at, int stride) {
    b.v[0] = to_tf32(ptx::load_shared4(at));
    b.v[1] = to_tf32(ptx::load_shared4(at + 16 * stride));
  }
  __device__ static void multiply(float (&d)[4], float (&)[4], const A& a, const B& b) {
    ptx::mma_tf32(d, a.v, b.v[0], b.v[1]);
  }
  __device__ static float operand(float v) { return __uint_as_float(to_tf32(__float_as_uint(v))); }
};

// hi*hi goes to a fresh sum that is rounded into d; hi*lo + lo*hi to a sum of their own, 2^13 times as large.
struct Ieee {
  using T = float;
  using Sum = float;
  static constexpr bool kCross = true, kRounds = true;
  struct A {
    uint4 hi, lo;
  };
  struct B {
    uint32_t hi[2], lo[2];
  };
  __device__ static void load(A& a, uint32_t at, int) {
    const uint4 v = ptx::load_matrices(at);
    split(v.x, a.hi.x, a.lo.x);
    split(v.y, a.hi.y, a.lo.y);
    split(v.z, a.hi.z, a.lo.z);
    split(v.w, a.hi.w, a.lo.w);
  }
  __device__ static void load(B& b, uint32_t at, int stride) {
    split(ptx::load_shared4(at), b.hi[0], b.lo[0]);
    split(ptx::load_shared4(at + 16 * stride), b.hi[1], b.lo[1]);
  }
  __device__ static void multiply(float (&d)[4], float (&cross)[4], const A& a, const B& b) {
    float fresh[4] = {0, 0, 0, 0};
    ptx::mma_tf32(fresh, a.hi, b.hi[0], b.hi[1]);
    ptx::mma_tf32(cross, a.lo, b.hi[0], b.hi[1]);
    ptx::mma_tf32(cross, a.hi, b.lo[0], b.lo[1]);
#pragma unroll
    for (int i = 0; i < 4; ++i) d[i] += fresh[i];
  }
  __device__ static float operand(float v) {
    return v;
  }
};

template <class Storage>
struct Half : WholeOperands {
  using T = Storage;
  __device__ static void load(A& a, uint32_t at, int) { a.v = ptx::load_matrices(at); }
  // Two neighbouring positions may lie in two words, or be half of each.
  __device__ static void load(B& b, uint32_t at, int stride) {
    b.v[0] = __byte_perm(ptx::load_shared2(at), ptx::load_shared2(at + 2 * stride), 0x5410);
    b.v[1] = __byte_perm(ptx::load_shared2(at + 16 * stride), ptx::load_shared2(at + 18 * stride), 0x5410);
  }
  __device__ static void multiply(float (&d)[4], float (&)[4], const A& a, const B& b) {
    if constexpr (std::is_same_v<T, __half>) {
      ptx::mma_f16(d, a.v, b.v[0], b.v[1]);
    } else {
      ptx::mma_bf16(d, a.v, b.v[0], b.v[1]);
    }
  }
  __device__ static float operand(float v) { return v; }
};

struct F64 {
  using T = double;
  using Sum = double;
  static constexpr bool kCross = false, kRounds = false;
  struct A {
    double v[2];
  };
  struct B {
    double v;
  };
  __device__ static void load(A& a, uint32_t at, int row_step) {
    a.v[0] = load_double(at);
    a.v[1] = load_double(at + row_step);
  }
  __device__ static void load(B& b, uint32_t at, int) { b.v = load_double(at); }
  __device__ static void multiply(double (&d)[4], double (&)[4], const A& a, const B& b) {
    ptx::mma_f64(d[0], d[1], a.v[0], b.v);
    ptx::mma_f64(d[2], d[3], a.v[1], b.v);
  }
  __device__ static double operand(double v) { return v; }
};

#else  // the kernels are empty there

template <class Storage, bool Cross>
struct Absent {
  using T = Storage;
  using Sum = Accumulator<T>;
  static constexpr bool kCross = Cross, kRounds = false;
};
struct Tf32 : Absent<float, false> {};
struct Ieee : Absent<float, true> {};
template <class Storage>
struct Half : Absent<Storage, false> {};
struct F64 : Absent<double, false> {};

#endif

}  // namespace tconv::cuda::sm80::weight
