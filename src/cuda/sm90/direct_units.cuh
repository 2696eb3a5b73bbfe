// x from raw stages to operands in shared memory, as direct_taps.cuh multiplies them: [channel
// block][position] [8 channels of 2 bytes].
#pragma once

#include "cuda/sm90/held_tile.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A lane's 8 channels of a position, as they are stored.
using RawUnit = uint32_t[8];

// 16-bit operands go as they are.
template <class Mode>
class UnitMaker : public PlainTile {
 public:
  static_assert(sizeof(typename Mode::T) == 2);

  // To shared address `to`, of split operands the second part so many bytes behind.
  __device__ void put(uint32_t to, uint32_t /*part*/, const RawUnit& v) {
    uint32_t pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = __byte_perm(v[2 * j], v[2 * j + 1], 0x5410);
    ptx::store_shared16(to, {pairs[0], pairs[1], pairs[2], pairs[3]});
  }
};

// float32 times a power of two, in float16, of split operands in two parts. A warpgroup has one scale for a
// half tile.
template <class Mode>
class HeldMaker : public HeldTile {
 public:
  // The bits of the largest finite magnitude.
  __device__ static uint32_t largest(const RawUnit& v) {
    uint32_t most = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      most = max(most, finite_magnitude(v[j]));
    }
    return most;
  }
  __device__ void start_tile(uint32_t most) {
    start(most);
  }
  // Looks for what is too small, or zero; what is too large becomes infinite.
  __device__ void put(uint32_t to, uint32_t part, const RawUnit& v) {
    uint32_t pairs[4];
    uint32_t least = kNothing;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      pairs[j] = held_pair(v[2 * j], v[2 * j + 1], scale_);
      least = HeldTile::least(pairs[j], least);
    }
    // The warp together: what follows a branch that lanes take apart has no uniform registers.
    if (__any_sync(0xffffffffu, suspect(least))) {
#pragma unroll
      for (int j = 0; j < 8; ++j) review(v[j]);
    }
    ptx::store_shared16(to, {pairs[0], pairs[1], pairs[2], pairs[3]});
    if constexpr (Mode::kParts == 2) put_rest(to + part, v, pairs);
  }

 private:
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
};

template <>
class UnitMaker<Held> : public HeldMaker<Held> {};
template <>
class UnitMaker<HeldSplit> : public HeldMaker<HeldSplit> {};

#endif

}  // namespace tconv::cuda::sm90
