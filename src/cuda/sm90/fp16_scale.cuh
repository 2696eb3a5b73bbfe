// What the makers of operands know of a tile: its power of two, and whether float16 could hold everything.
//
// A magnitude that is too large becomes infinite, and marks the tile: it is computed again. One below the
// normal range is rounded to a multiple of 2^-24, so it is off by up to 2^-25; in two parts, by up to 2^-35
// with what its product leaves out. Scaled weights are below 2^16. So if `tiny` operands of a tile are that
// small, its sums are off by up to tiny * 2^-9, or tiny * 2^-19, which is nothing beside a large sum: the
// host says how large it must be for each such operand (Sm90TileMarks::least_sum). A tile is marked if one of
// its outputs has a smaller sum. Of normally distributed numbers one in 10^7 is tiny, and among their sums
// hardly any is small.
#pragma once

#include "cuda/sm90/each_sum.cuh"
#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A power of two for some numbers of x. It puts the largest finite magnitude into [2^11, 2^12), which leaves
// a factor of 16 above it and 2^25 below.
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
  __device__ uint32_t take_tiny() { return 0; }
  template <class Sums, class Exists>
  __device__ void end_tile(const Sums&, uint32_t /*tiny*/, float /*least_sum*/, const Exists&) {}
  __device__ bool marked() const { return false; }
  __device__ float unscale() const { return 1; }
};

// For float32 in float16: its scale, and whether anything cannot be held.
class ScaledTile {
 public:
  // How many operands were tiny since the last call, of all lanes.
  __device__ uint32_t take_tiny() {
    const uint32_t all = __reduce_add_sync(0xffffffffu, tiny_);
    tiny_ = 0;
    return all;
  }
  // An infinite operand shows in every sum that contains it. exists(i): whether sum i is one of an output.
  template <class Sums, class Exists>
  __device__ void end_tile(const Sums& sums, uint32_t tiny, float least_sum, const Exists& exists) {
    marked_ = false;
#pragma unroll
    for (const auto& some : sums) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        marked_ = marked_ | !(fabsf(some[i]) < __uint_as_float(kInfBits));
      }
    }
    if (!__any_sync(0xffffffffu, tiny != 0)) return;  // a vote: the compiler then knows that lanes agree
    const float least = static_cast<float>(tiny) * least_sum;
    const bool small = sums_that(sums, [least](float sum) { return fabsf(sum) < least; }).any(exists);
    marked_ = marked_ || small;
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
    tiny_ = 0;
  }
  // For magnitudes.
  __device__ static uint32_t least(uint32_t both, uint32_t before) {
    const __half2 less = __hmin2(__habs2(*reinterpret_cast<const __half2*>(&both)),
                                 *reinterpret_cast<const __half2*>(&before));
    return *reinterpret_cast<const uint32_t*>(&less);
  }
  // Zero, or not a normal number.
  __device__ static bool suspect(uint32_t least) {
    return least < 0x04000000u || (least & 0xffffu) < 0x0400u;
  }
  // Counts what is not zero, and less than 2^-14 after scaling.
  __device__ void review(uint32_t bits) {
    tiny_ += 2u * bits - 1u < scale_.twice_least() - 1u ? 1 : 0;
  }

  bool marked_ = false;
  uint32_t tiny_ = 0;
  Fp16Scale scale_;
};

#endif

}  // namespace tconv::cuda::sm90
