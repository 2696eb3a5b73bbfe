// What the makers of operands know of a tile: its power of two, and whether float16 could hold everything.
#pragma once

#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A power of two for some numbers of x. It puts the largest finite magnitude into [2^11, 2^12), which leaves
// leaves a factor of 16 above it and 2^25 below.
class Fp16Scale {
 public:
  Fp16Scale() = default;
  // Of the bits of that magnitude.
  __device__ explicit Fp16Scale(uint32_t most) {
    const int exponent = scale_exponent(most);
    up_ = __uint_as_float(static_cast<uint32_t>(254 + 11 - exponent) << 23);
    down_ = __uint_as_float(static_cast<uint32_t>(exponent - 11) << 23);
  }
  __device__ float up() const { return up_; }
  __device__ float down() const { return down_; }
  // Twice the bits (so that the sign drops out) of the least magnitude that is normal in float16.
  __device__ uint32_t twice_least() const { return 2u * (__float_as_uint(down_) - (14u << 23)); }

 private:
  float up_ = 1, down_ = 1;
};

// For 16-bit types: nothing.
class PlainTile {
 public:
  template <class Sums>
  __device__ void end_tile(const Sums&) {}
  __device__ bool marked() const { return false; }
  __device__ float unscale() const { return 1; }
};

// For float32 in float16: its scale, and whether anything cannot be held.
class ScaledTile {
 public:
  // An infinite operand shows in every sum that contains it.
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
    return scale_.down();
  }

 protected:
  static constexpr uint32_t kLeastOfNone = 0x7c007c00u;  // infinities

  __device__ void start(uint32_t most) {
    scale_ = Fp16Scale(most);
    marked_ = false;
  }
  // For magnitudes. One that is too large becomes infinite, which end_tile sees.
  __device__ static uint32_t least(uint32_t both, uint32_t before) {
    const __half2 less = __hmin2(__habs2(*reinterpret_cast<const __half2*>(&both)),
                                 *reinterpret_cast<const __half2*>(&before));
    return *reinterpret_cast<const uint32_t*>(&less);
  }
  // Zero, or not a normal number.
  __device__ static bool suspect(uint32_t least) {
    return least < 0x04000000u || (least & 0xffffu) < 0x0400u;
  }
  // Whatever is not zero must be 2^-14 or more after scaling.
  __device__ void review(uint32_t bits) {
    marked_ = marked_ | (2u * bits - 1u < scale_.twice_least() - 1u);
  }

  bool marked_ = false;
  Fp16Scale scale_;
};

#endif

}  // namespace tconv::cuda::sm90
