// The kernels that pack weights, into the layouts that dense.hpp describes.
#pragma once

#include "cuda/sm90/shape.cuh"

namespace tconv::cuda::sm90 {

// 8 weights in float16; out: one is not zero and leaves its normal range.
__device__ inline uint4 hold_weights(const uint32_t (&v)[8], float scale, bool& out) {
  uint32_t pairs[4];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float scaled = __uint_as_float(v[j]) * scale;
    out = out || (scaled != 0 && !(fabsf(scaled) >= 0x1p-14f && fabsf(scaled) <= 0x1p15f)) ||
          (scaled == 0 && 2u * v[j] != 0);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const __half2 both =
        __floats2half2_rn(__uint_as_float(v[2 * j]) * scale, __uint_as_float(v[2 * j + 1]) * scale);
    pairs[j] = *reinterpret_cast<const uint32_t*>(&both);
  }
  return {pairs[0], pairs[1], pairs[2], pairs[3]};
}

// A block a cout: 1/scale, so that the cout's largest finite magnitude comes to lie in [2^13, 2^14); and the
// marks begin as 0.
static __global__ void scales_kernel(const __grid_constant__ Sm90PackParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const int64_t channel = blockIdx.x, group = channel / p.cout_group, cout = channel % p.cout_group;
  const uint32_t* w = static_cast<const uint32_t*>(p.weight);
  uint32_t most = 0;
  for (int i = threadIdx.x; i < p.cin_group * p.k; i += blockDim.x) {
    const int64_t ci = i / p.k, k = i % p.k;
    const uint32_t magnitude =
        __ldg(w + ((group * p.cin_group + ci) * p.cout_group + cout) * p.k + k) & 0x7fffffffu;
    most = max(most, magnitude < sm80::kInfBits ? magnitude : 0u);
  }
  __shared__ uint32_t all[8];
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const uint32_t one : all) most = max(most, one);
  const int exponent = most == 0 ? 127 : min(max(static_cast<int>(most >> 23), 67), 187);
  unsigned char* packed = static_cast<unsigned char*>(p.packed);
  reinterpret_cast<float*>(packed + p.scales_at)[channel] =
      __uint_as_float(static_cast<uint32_t>(exponent - 13) << 23);
  if (cout % p.block_couts != 0) return;
  const int64_t row_block = group * p.row_blocks + cout / p.block_couts;
  packed[p.marks_at + row_block] = packed[p.other_marks_at + row_block] = 0;
#endif
}

// A thread packs the unit of one (group, row block, slab, tap, channel block, row), all of its parts.
template <class Mode>
__global__ void pack_kernel(const __grid_constant__ Sm90PackParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Word = typename Mode::Word;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.units; i += stride) {
    const int row = static_cast<int>(i % kSm90Rows), block = static_cast<int>(i / kSm90Rows % kSm90Blocks);
    const int64_t tap_index = i / (kSm90Rows * kSm90Blocks);
    const int tap = static_cast<int>(tap_index % p.taps);
    const int64_t slab_index = tap_index / p.taps;
    const int slab = static_cast<int>(slab_index % p.slabs);
    const int64_t row_block = slab_index / p.slabs;  // of all groups
    const int64_t group = row_block / p.row_blocks;
    const int inner = row / p.phases, phase = row % p.phases;
    const int64_t cout = row_block % p.row_blocks * p.block_couts + inner;
    const int64_t k = phase + int64_t{tap} * p.tap_stride;
    const bool row_there = inner < p.block_couts && cout < p.cout_group && k < p.k;
    Word v[Mode::kUnit];
    bool infinite = false;
#pragma unroll
    for (int e = 0; e < Mode::kUnit; ++e) {
      const int channel = slab * Mode::kSlab + block * Mode::kUnit + e;
      const bool there = row_there && channel < p.cin_group;
      const int64_t at = ((group * p.cin_group + channel) * p.cout_group + cout) * p.k + k;
      v[e] = there ? __ldg(static_cast<const Word*>(p.weight) + at) : Word(0);
      const float value = widen(*reinterpret_cast<const typename Mode::T*>(&v[e]));
      infinite = infinite || !(fabsf(value) <= 3.402823466e38f);
    }
    uint4* to = static_cast<uint4*>(p.packed) + tap_index * Mode::kParts * kSm90Blocks * kSm90Rows +
                block * kSm90Rows + row;
    unsigned char* marks = static_cast<unsigned char*>(p.packed) + p.marks_at;
    if constexpr (std::is_same_v<Mode, Held>) {
      const float* scales =
          reinterpret_cast<const float*>(static_cast<unsigned char*>(p.packed) + p.scales_at);
      const float scale = row_there ? 1 / scales[group * p.cout_group + cout] : 1;
      bool out = false;
      to[0] = hold_weights(v, scale, out);
      if (infinite || out) marks[row_block] = 2;
    } else {
      if (infinite || Mode::special(v)) marks[row_block] = 1;
      uint4 parts[Mode::kParts];
      Mode::weight(v, parts);
#pragma unroll
      for (int q = 0; q < Mode::kParts; ++q) to[q * kSm90Blocks * kSm90Rows] = parts[q];
    }
  }
#endif
}

}  // namespace tconv::cuda::sm90
