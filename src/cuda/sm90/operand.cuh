// What elements of x become on their way to the operands' stages where they come by bulk copies: scaled and
// held in float16.
#pragma once

#include "cuda/sm90/shape.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class Operands {
 public:
  static_assert(std::is_same_v<typename S::Mode, Held>);
  static constexpr int kPiece = 32;    // positions of a warp
  using Unit = uint32_t[Held::kUnit];  // a channel block's numbers, at the lane's position

  __device__ Operands(const Sm90Params& p, unsigned char* shared) : p_(p), shared_(shared) {}

  // Writes a unit at shared address `to`, where it is `wanted`.
  __device__ void write(const Unit& v, uint32_t to, bool wanted = true) {
    const uint4 unit = hold(v);
    if (wanted) ptx::store_shared16(to, unit);
  }

  // Of the last two units written: whether they held what operands cannot. Once for two, because a branch
  // keeps the instructions of one from those of the other.
  __device__ void review(const Unit& v, const Unit& w) {
    if (static_cast<int>(least_) < 0x08000000 || static_cast<int>(least_ << 16) < 0x08000000) {
      mark_ = mark_ || outside(v) || outside(w);
    }
    least_ = kLeast;
  }

  // The larger of `most` and the unit's finite magnitudes.
  __device__ static uint32_t largest(const Unit& v, uint32_t most) {
#pragma unroll
    for (int j = 0; j < Held::kUnit; ++j) {
      most = max(most, finite_magnitude(v[j]));
    }
    return most;
  }

  // The tile's scale, from the largest finite magnitude of a part of its first stage, of which each of the
  // warps has seen some: it comes to lie in [2^11, 2^12), which leaves a factor of 16 above it and 2^25
  // below.
  template <int Warps>
  __device__ void agree_on_scale(uint32_t most, int warp) {
    most = __reduce_max_sync(0xffffffffu, most);
    turn_ ^= 1;
    volatile uint32_t* agreed = reinterpret_cast<uint32_t*>(shared_ + p_.shared_scale) + 8 * turn_;
    if (threadIdx.x % 32 == 0) agreed[warp] = most;
    ptx::named_barrier(4, 32 * Warps);
#pragma unroll
    for (int w = 0; w < Warps; ++w) most = max(most, agreed[w]);
    const int exponent = held_exponent(most);
    scale_ = __uint_as_float(static_cast<uint32_t>(254 + 11 - exponent) << 23);
    unscale_ = __uint_as_float(static_cast<uint32_t>(exponent - 11) << 23);
    low_ = 2u * (static_cast<uint32_t>(exponent - 11 - 14) << 23);
    range_ = 2u * (static_cast<uint32_t>(exponent - 11 + 15) << 23) - low_;
  }

  // For the warps that multiply: whether this warp saw, in the stage, what its operands cannot hold, and the
  // tile's scale.
  __device__ void tell(int stage, int warp) {
    const bool marked = __any_sync(0xffffffffu, mark_);
    mark_ = false;
    if (threadIdx.x % 32 != 0) return;
    shared_[p_.shared_small + 8 * stage + warp] = marked;
    if (warp == 0) reinterpret_cast<float*>(shared_ + p_.shared_scale)[16 + stage] = unscale_;
  }

 private:
  static constexpr uint32_t kLeast = 0x7fff7fffu;

  // 8 numbers in float16. What is not zero must lie in [2^-14, 2^15] after scaling. The quick look, two
  // instructions a pair, finds exponents of 0 and 31: magnitudes plus 0x400, as signed 16-bit numbers, are
  // negative for 31 and less than 0x800 for 0.
  __device__ uint4 hold(const uint32_t (&v)[8]) {
    uint32_t pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      pairs[j] = held_pair(v[2 * j], v[2 * j + 1], scale_);
      least_ = __viaddmin_s16x2(pairs[j] & 0x7fff7fffu, 0x04000400u, least_);
    }
    return {pairs[0], pairs[1], pairs[2], pairs[3]};
  }
  __device__ bool outside(const uint32_t (&v)[8]) const {
    bool any = false;
#pragma unroll
    for (int j = 0; j < 8; ++j) any = any || (2u * v[j] != 0 && 2u * v[j] - low_ > range_);
    return any;
  }

  const Sm90Params& p_;
  unsigned char* shared_;
  bool mark_ = false;  // an operand out of float16's range
  uint32_t least_ = kLeast;
  int turn_ = 0;
  float scale_ = 1, unscale_ = 1;
  uint32_t low_ = 0, range_ = 0;  // of magnitudes, doubled to drop the sign
};

#endif

}  // namespace tconv::cuda::sm90
