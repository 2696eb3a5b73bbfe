// The arithmetics of cuda.sm90.weight_blocked: what a plane holds of a number.
#pragma once

#include "cuda/device/ptx/sm80.cuh"
#include "cuda/device/scalar.cuh"
#include "cuda/sm80/weight_modes.cuh"
#include "cuda/sm90/arithmetic.cuh"
#include "cuda/sm90/weight_blocked.hpp"

namespace tconv::cuda::sm90::weight_blocked {

// A mode: sixteen bytes of each part hold kPlanes planes at one position, or kPositions of one plane. A
// thread of the pass makes them for kRows rows and kEach places.
struct EightPlanes {
  static constexpr int kPlanes = 8, kPositions = 1, kRows = 1, kEach = 2;
};

template <class Storage>
struct HalfMode : EightPlanes {
  using T = Storage;
  using Word = uint16_t;
  static constexpr Arithmetic kMode = std::is_same_v<T, __half> ? Arithmetic::f16 : Arithmetic::bf16;
  static constexpr int kParts = 1;
  // The value that is multiplied may be infinite although operand() is finite.
  static constexpr bool kRounds = false, kScaled = false;
  __device__ static void units(const Word (&v)[8], uint4 (&parts)[1]) {
    auto pair = [&](int i) { return v[2 * i] | static_cast<uint32_t>(v[2 * i + 1]) << 16; };
    parts[0] = {pair(0), pair(1), pair(2), pair(3)};
  }
  __device__ static float operand(float v) { return v; }
};

struct Tf32Mode {
  using T = float;
  using Word = uint32_t;
  static constexpr Arithmetic kMode = Arithmetic::tf32;
  static constexpr int kParts = 1, kPlanes = 1, kPositions = 4, kRows = 4, kEach = 1;
  static constexpr bool kRounds = false, kScaled = false;
  __device__ static void units(const Word (&v)[4], uint4 (&parts)[1]) {
    using sm80::tf32_word;
    parts[0] = {tf32_word(v[0]), tf32_word(v[1]), tf32_word(v[2]), tf32_word(v[3])};
  }
  __device__ static float operand(float v) {
    return __uint_as_float(sm80::tf32_word(__float_as_uint(v)));
  }
};

struct IeeeMode : EightPlanes {
  using T = float;
  using Word = uint32_t;
  static constexpr Arithmetic kMode = Arithmetic::ieee;
  static constexpr int kParts = 3;
  static constexpr float kUp = 0x1p8f, kDown = 0x1p-8f;
  static constexpr bool kRounds = true, kScaled = false;
  __device__ static uint32_t bits(__nv_bfloat162 v) { return *reinterpret_cast<const uint32_t*>(&v); }
  // Each part is rounded to nearest; what it leaves is exact in float32 and, times 2^8, becomes the next
  // part, so that the parts of small numbers have all their bits. The rest of an infinite number is NaN.
  __device__ static void split(float left, float right, uint32_t (&parts)[3]) {
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      const __nv_bfloat162 both = __floats2bfloat162_rn(left, right);
      parts[part] = bits(both);
      left = (left - __bfloat162float(both.x)) * kUp;
      right = (right - __bfloat162float(both.y)) * kUp;
    }
  }
  __device__ static void units(const Word (&v)[8], uint4 (&parts)[3]) {
    uint32_t words[4][3];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      split(__uint_as_float(v[2 * i]), __uint_as_float(v[2 * i + 1]), words[i]);
    }
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      parts[part] = {words[0][part], words[1][part], words[2][part], words[3][part]};
    }
  }
  __device__ static float operand(float v) {
    return v;
  }
};

// tf32 and ieee in float16. units() takes numbers that are scaled already.
struct ScaledTf32Mode : EightPlanes {
  using T = float;
  using Word = uint32_t;
  static constexpr Arithmetic kMode = Arithmetic::tf32;
  static constexpr int kParts = 1;
  static constexpr bool kRounds = false, kScaled = true;
  __device__ static void units(const Word (&v)[8], uint4 (&parts)[1]) { parts[0] = scaled_unit(v, 1.f); }
  __device__ static float operand(float v) { return Tf32Mode::operand(v); }
};

struct ScaledIeeeMode : EightPlanes {
  using T = float;
  using Word = uint32_t;
  static constexpr Arithmetic kMode = Arithmetic::ieee;
  static constexpr int kParts = 2;
  static constexpr float kDown = Fp16Split::kDown;
  static constexpr bool kRounds = true, kScaled = true;
  __device__ static void units(const Word (&v)[8], uint4 (&parts)[2]) {
    parts[0] = scaled_unit(v, 1.f);
    parts[1] = rest_of_unit(v, 1.f, parts[0]);
  }
  __device__ static float operand(float v) { return v; }
};

}  // namespace tconv::cuda::sm90::weight_blocked
