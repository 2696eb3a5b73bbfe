// What differs from mode to mode in cuda.sm80.weight: how words of shared memory become operands, and the
// mma.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/device/ptx/sm80.cuh"
#include "cuda/sm80/tf32_words.cuh"
#include "cuda/sm80/weight.hpp"

namespace tconv::cuda::sm80::weight {

__device__ inline double load_double(uint32_t from) {
  double v;
  asm volatile("ld.shared.f64 %0, [%1];\n" : "=d"(v) : "r"(from));
  return v;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// kRounds: the value that is multiplied may be infinite although operand() is finite.
//
// A: 16 rows of x, 32 bytes of positions each; B: 8 columns of dy likewise, positions
// `stride` elements apart. The third argument of A: bytes of 8 rows of x. set(): of words as they were
// loaded.

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
  __device__ static void set(A& a, const uint4& words) { a.v = words; }
  __device__ static void set(B& b, uint32_t first, uint32_t second) { b.v[0] = first, b.v[1] = second; }
};

struct Tf32 : WholeOperands {
  using T = float;
  __device__ static void set(A& a, const uint4& words) {
    a.v = {tf32_word(words.x), tf32_word(words.y), tf32_word(words.z), tf32_word(words.w)};
  }
  __device__ static void set(B& b, uint32_t first, uint32_t second) {
    b.v[0] = tf32_word(first), b.v[1] = tf32_word(second);
  }
  __device__ static void load(A& a, uint32_t at, int) { set(a, ptx::load_matrices(at)); }
  __device__ static void load(B& b, uint32_t at, int stride) {
    set(b, ptx::load_shared4(at), ptx::load_shared4(at + 16 * stride));
  }
  __device__ static void multiply(float (&d)[4], float (&)[4], const A& a, const B& b) {
    ptx::mma_tf32(d, a.v, b.v[0], b.v[1]);
  }
  __device__ static float operand(float v) { return __uint_as_float(tf32_word(__float_as_uint(v))); }
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
  __device__ static void set(A& a, const uint4& words) {
    split_word(words.x, a.hi.x, a.lo.x);
    split_word(words.y, a.hi.y, a.lo.y);
    split_word(words.z, a.hi.z, a.lo.z);
    split_word(words.w, a.hi.w, a.lo.w);
  }
  __device__ static void set(B& b, uint32_t first, uint32_t second) {
    split_word(first, b.hi[0], b.lo[0]);
    split_word(second, b.hi[1], b.lo[1]);
  }
  __device__ static void load(A& a, uint32_t at, int) { set(a, ptx::load_matrices(at)); }
  __device__ static void load(B& b, uint32_t at, int stride) {
    set(b, ptx::load_shared4(at), ptx::load_shared4(at + 16 * stride));
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

// Whether a sum may include a product that does not exist.
template <class Mode>
__device__ inline bool suspicious(typename Mode::Sum v) {
  return Mode::kRounds ? !is_finite(v) : v != v;
}

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
