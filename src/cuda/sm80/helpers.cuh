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

// Output o of row (n, cout) of y, without bias.
template <class Sum>
__device__ inline Sum sum_parts(const Sm80SumParams& p, int64_t n, uint32_t cout, uint32_t o) {
  const uint32_t q = o + p.padding;
  const uint32_t turn = p.stride_div.divide(q), slot = q - turn * p.stride;
  // The phase a with a*dilation = slot modulo the stride.
  const uint32_t turns = p.gcd_div.divide(slot);
  const uint32_t product = turns * p.inverse;
  const int a = static_cast<int>(product - p.tap_stride_div.divide(product) * p.tap_stride);
  if (turns * p.gcd_div.value != slot || a >= p.phases) return 0;
  const int u = static_cast<int>(turn) - static_cast<int>(p.stride_div.divide(a * p.dilation - slot));
  const uint32_t group = p.cout_group_div.divide(cout), inner = cout - group * p.cout_group;
  const uint32_t block = p.block_couts_div.divide(inner);
  const int64_t row = group * p.group_rows + int64_t{block} * p.block_rows +
                      (inner - block * p.block_couts) * p.cout_rows + a * p.phase_rows;
  const Sum* at =
      static_cast<const Sum*>(p.partial) + row * p.partial_columns + n * p.sample_columns + (u - p.first_u);
  Sum sum = at[0];
#pragma unroll 4
  for (int split = 1; split < p.splits; ++split) sum += at[split * p.split_size];
  return sum;
}

// A block sums p.chunk outputs that lie side by side: a piece of one row (n, cout) of y, or short rows. A
// thread's sums are under way together.
template <class Mode>
__global__ void __launch_bounds__(kSm80SumThreads) sum_kernel(const __grid_constant__ Sm80SumParams p) {
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;
  constexpr int kEach = kSm80SumChunk / kSm80SumThreads;
  const uint32_t place = p.chunks_div.divide(blockIdx.x), chunk = blockIdx.x - place * p.chunks_div.value;
  const uint32_t first_row = place * p.chunk_rows, rows = min(p.rows - first_row, p.chunk_rows);
  const uint32_t first = chunk * p.chunk + threadIdx.x;
  const uint32_t end = min(rows * static_cast<uint32_t>(p.lout), (chunk + 1) * p.chunk);
  Sum sums[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const uint32_t e = first + i * kSm80SumThreads;
    if (e >= end) break;
    const uint32_t turn = p.lout_div.divide(e), row = first_row + turn;
    const uint32_t n = p.cout_div.divide(row), cout = row - n * p.cout;
    sums[i] = sum_parts<Sum>(p, n, cout, e - turn * static_cast<uint32_t>(p.lout)) +
              load_bias_to_add<T>(p.bias, cout);
  }
  T* y = static_cast<T*>(p.output) + int64_t{first_row} * p.lout;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const uint32_t e = first + i * kSm80SumThreads;
    if (e < end) y[e] = narrow<T>(sums[i]);
  }
}

}  // namespace tconv::cuda::sm80
