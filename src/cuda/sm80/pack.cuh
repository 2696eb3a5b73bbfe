// Packing of weights for dense_kernel.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/sm80/dense.hpp"

namespace tconv::cuda::sm80 {

// A thread packs the unit of one (group, row tile, slab, tap, step, lane), all of its parts.
template <class Mode>
__global__ void pack_kernel(const __grid_constant__ Sm80PackParams p) {
  wait_for_launch_before();
  using Word = typename Mode::Word;
  using Fragment = WeightFragment<Mode::kUnit>;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.units; i += stride) {
    const int lane = static_cast<int>(i % kSm80RowTileUnits);
    int64_t rest = i / kSm80RowTileUnits;
    const int64_t step_index = rest;
    const int step = static_cast<int>(rest % kSm80Steps);
    rest /= kSm80Steps;
    const int tap = static_cast<int>(rest % p.taps);
    rest /= p.taps;
    const int slab = static_cast<int>(rest % p.slabs);
    rest /= p.slabs;
    const int tile = static_cast<int>(rest % p.row_tiles);
    const int64_t group = rest / p.row_tiles;
    const int64_t k = tile % p.phases + int64_t{tap} * p.tap_stride;
    Word v[Mode::kUnit];
#pragma unroll
    for (int e = 0; e < Mode::kUnit; ++e) {
      const int cout = tile / p.phases * 16 + Fragment::row(lane, e);
      const int channel = slab * Mode::kSlab + step * Mode::kDepth + Fragment::channel(lane, e);
      const bool there = cout < p.cout_group && channel < p.cin_group && k < p.k;
      const int64_t at = there ? p.steps.place(group, channel, cout, static_cast<int>(k)) : -1;
      v[e] = at >= 0 ? __ldg(static_cast<const Word*>(p.weight) + at) : Word(0);
    }
    if (Mode::special(v)) p.marks[group * p.row_tiles + tile] = 1;
    uint4 parts[Mode::kParts];
    Mode::weight(v, parts);
    uint4* to = static_cast<uint4*>(p.packed) + step_index * Mode::kParts * kSm80RowTileUnits + lane;
#pragma unroll
    for (int q = 0; q < Mode::kParts; ++q) to[q * kSm80RowTileUnits] = parts[q];
  }
}

}  // namespace tconv::cuda::sm80
