// What makers of operands know of a tile: its scale, and what they could not hold.
#pragma once

#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Of 16-bit types: nothing.
class PlainTile {
 public:
  template <class Sums>
  __device__ void end_tile(const Sums&) {}
  __device__ bool marked() const { return false; }
  __device__ float unscale() const { return 1; }
};

// Of float32 in float16: its scale, and whether anything cannot be held.
class ScaledTile {
 public:
  // An infinite operand shows in every sum that it is in.
  template <class Sums>
  __device__ void end_tile(const Sums& sums) {
#pragma unroll
    for (const auto& some : sums) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        marked_ = marked_ | !(fabsf(some[i]) < __uint_as_float(kInfBits));
      }
    }
  }
  __device__ bool marked() const {
    return marked_;
  }
  __device__ float unscale() const {
    return unscale_;
  }

 protected:
  static constexpr uint32_t kNothing = 0x7c007c00u;  // least() of it: infinities

  // The largest finite magnitude comes to lie in [2^11, 2^12): that leaves a factor of 16 above it and 2^25
  // below.
  __device__ void start(uint32_t most) {
    const int exponent = scale_exponent(most);
    scale_ = __uint_as_float(static_cast<uint32_t>(254 + 11 - exponent) << 23);
    unscale_ = __uint_as_float(static_cast<uint32_t>(exponent - 11) << 23);
    marked_ = false;
  }
  // Of magnitudes. What is too large becomes infinite, which end_tile sees.
  __device__ static uint32_t least(uint32_t both, uint32_t before) {
    const __half2 less = __hmin2(__habs2(*reinterpret_cast<const __half2*>(&both)),
                                 *reinterpret_cast<const __half2*>(&before));
    return *reinterpret_cast<const uint32_t*>(&less);
  }
  // Zero, or not a normal number.
  __device__ static bool suspect(uint32_t least) {
    return least < 0x04000000u || (least & 0xffffu) < 0x0400u;
  }
  // What is not zero must be 2^-14 or more after scaling.
  __device__ void review(uint32_t bits) {
    const uint32_t low = 2u * (__float_as_uint(unscale_) - (14u << 23));
    marked_ = marked_ | (2u * bits - 1u < low - 1u);
  }

  bool marked_ = false;
  float scale_ = 1, unscale_ = 1;
};

#endif

}  // namespace tconv::cuda::sm90
