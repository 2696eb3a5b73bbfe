// x from raw stages to operands in shared memory, as direct_taps.cuh multiplies them: [channel
// block][position] [8 channels of 2 bytes].
#pragma once

#include "cuda/sm90/shape.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A lane's 8 channels of a position, as they are stored.
using RawUnit = uint32_t[8];

// 16-bit operands go as they are.
template <class Mode>
class UnitMaker {
 public:
  static_assert(sizeof(typename Mode::T) == 2);

  // To shared address `to`, of split operands the second part so many bytes behind.
  __device__ void put(uint32_t to, uint32_t /*part*/, const RawUnit& v) {
    uint32_t pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = __byte_perm(v[2 * j], v[2 * j + 1], 0x5410);
    ptx::store_shared16(to, {pairs[0], pairs[1], pairs[2], pairs[3]});
  }
  template <class Sums>
  __device__ void end_tile(const Sums&) {}
  __device__ bool marked() const {
    return false;
  }
  __device__ float unscale() const {
    return 1;
  }
};

// float32 times a power of two, in float16, of split operands in two parts. A warpgroup has one scale for a
// half tile.
template <class Mode>
class HeldMaker {
 public:
  // The bits of the largest finite magnitude.
  __device__ static uint32_t largest(const RawUnit& v) {
    uint32_t most = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const uint32_t magnitude = v[j] & 0x7fffffffu;
      most = max(most, magnitude < sm80::kInfBits ? magnitude : 0u);
    }
    return most;
  }
  // most comes to lie in [2^11, 2^12): that leaves a factor of 16 above it and 2^25 below.
  __device__ void start_tile(uint32_t most) {
    const int exponent = held_exponent(most);
    scale_ = __uint_as_float(static_cast<uint32_t>(254 + 11 - exponent) << 23);
    unscale_ = __uint_as_float(static_cast<uint32_t>(exponent - 11) << 23);
    marked_ = false;
  }
  // Looks for what is too small, or zero; what is too large becomes infinite.
  __device__ void put(uint32_t to, uint32_t part, const RawUnit& v) {
    uint32_t pairs[4];
    __half2 least = __half2half2(__ushort_as_half(kInfinity));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      pairs[j] = held_pair(v[2 * j], v[2 * j + 1], scale_);
      least = __hmin2(__habs2(*reinterpret_cast<const __half2*>(&pairs[j])), least);
    }
    const uint32_t bits = *reinterpret_cast<const uint32_t*>(&least);
    // The warp together: what follows a branch that lanes take apart has no uniform registers.
    if (__any_sync(0xffffffffu, bits < 0x04000000u || (bits & 0xffffu) < 0x0400u)) review(v);
    ptx::store_shared16(to, {pairs[0], pairs[1], pairs[2], pairs[3]});
    if constexpr (Mode::kParts == 2) put_rest(to + part, v, pairs);
  }
  // An infinite operand shows in every sum that it is in.
  template <class Sums>
  __device__ void end_tile(const Sums& sums) {
#pragma unroll
    for (auto& some : sums) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        marked_ = marked_ | !(fabsf(some[i]) < __uint_as_float(sm80::kInfBits));
      }
    }
  }
  // Whether anything of the tile cannot be held.
  __device__ bool marked() const {
    return marked_;
  }
  __device__ float unscale() const {
    return unscale_;
  }

 private:
  static constexpr unsigned short kInfinity = 0x7c00;  // of float16

  // What the pairs leave, exactly, then rounded.
  __device__ void put_rest(uint32_t to, const RawUnit& v, const uint32_t (&pairs)[4]) const {
    uint32_t rests[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 taken = __half22float2(*reinterpret_cast<const __half2*>(&pairs[j]));
      const float low = fmaf(__uint_as_float(v[2 * j]), scale_, -taken.x),
                  high = fmaf(__uint_as_float(v[2 * j + 1]), scale_, -taken.y);
      rests[j] = held_pair(__float_as_uint(low), __float_as_uint(high), HeldSplit::kUp);
    }
    ptx::store_shared16(to, {rests[0], rests[1], rests[2], rests[3]});
  }
  // What is not zero must be 2^-14 or more after scaling.
  __device__ void review(const RawUnit& v) {
    const uint32_t low = 2u * (__float_as_uint(unscale_) - (14u << 23));
#pragma unroll
    for (int j = 0; j < 8; ++j) marked_ = marked_ | (2u * v[j] - 1u < low - 1u);
  }

  bool marked_ = false;
  float scale_ = 1, unscale_ = 1;
};

template <>
class UnitMaker<Held> : public HeldMaker<Held> {};
template <>
class UnitMaker<HeldSplit> : public HeldMaker<HeldSplit> {};

#endif

}  // namespace tconv::cuda::sm90
