// The small kernels around dense_kernel: packing, and the sum of partial sums.
#pragma once

#include "cuda/sm80/modes.cuh"

namespace tconv::cuda::sm80 {

// A thread packs the unit of one (group, row tile, slab, tap, step, lane), all of its parts.
template <class Mode>
__global__ void pack_kernel(const __grid_constant__ Sm80PackParams p) {
  using Word = typename Mode::Word;
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
      const int cout = tile / p.phases * 16 + unit_row<Mode>(lane, e);
      const int channel = slab * Mode::kSlab + step * Mode::kDepth + unit_channel<Mode>(lane, e);
      const bool there = cout < p.cout_group && channel < p.cin_group && k < p.k;
      const int64_t at = ((group * p.cin_group + channel) * p.cout_group + cout) * p.k + k;
      v[e] = there ? __ldg(static_cast<const Word*>(p.weight) + at) : Word(0);
    }
    if (Mode::special(v)) p.marks[group * p.row_tiles + tile] = 1;
    uint4 parts[Mode::kParts];
    Mode::weight(v, parts);
    uint4* to = static_cast<uint4*>(p.packed) + step_index * Mode::kParts * kSm80RowTileUnits + lane;
#pragma unroll
    for (int q = 0; q < Mode::kParts; ++q) to[q * kSm80RowTileUnits] = parts[q];
  }
}

// A block sums a piece of one row (n, cout) of y.
template <class Mode>
__global__ void __launch_bounds__(kSm80SumThreads) sum_kernel(const __grid_constant__ Sm80SumParams p) {
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;
  const uint32_t row = p.chunks_div.divide(blockIdx.x), chunk = blockIdx.x - row * p.chunks_div.value;
  const int64_t n = row / p.cout;
  const int cout = static_cast<int>(row - n * p.cout), group = cout / p.cout_group,
            inner = cout % p.cout_group;
  const Sum bias = p.bias == nullptr ? Sum(0) : widen(__ldg(static_cast<const T*>(p.bias) + cout));
  const int64_t first_row = group * p.group_rows + int64_t{inner / p.block_couts} * p.block_rows +
                            inner % p.block_couts * p.cout_rows;
  const Sum* partial = static_cast<const Sum*>(p.partial) + n * p.sample_columns - p.first_u;
  T* y = static_cast<T*>(p.output) + int64_t{row} * p.lout;
  for (int i = threadIdx.x; i < kSm80SumChunk; i += kSm80SumThreads) {
    const int64_t o = int64_t{chunk} * kSm80SumChunk + i;
    if (o >= p.lout) break;
    const uint32_t q = static_cast<uint32_t>(o) + p.padding;
    const uint32_t turn = p.stride_div.divide(q), slot = q - turn * p.stride;
    // The phase a with a*dilation = slot modulo the stride.
    const uint32_t turns = p.gcd_div.divide(slot);
    const uint32_t product = turns * p.inverse;
    const int a = static_cast<int>(product - p.tap_stride_div.divide(product) * p.tap_stride);
    Sum sum = 0;
    if (turns * p.gcd_div.value == slot && a < p.phases) {
      const int64_t u = (static_cast<int64_t>(q) - int64_t{a} * p.dilation) / p.stride;
      const Sum* at = partial + (first_row + a * p.phase_rows) * p.partial_columns + u;
      sum = at[0];
      for (int split = 1; split < p.splits; ++split) sum += at[split * p.split_size];
    }
    y[o] = narrow<T>(sum + bias);
  }
}

}  // namespace tconv::cuda::sm80
