// The epilogue's table of a block's rows: which output and which bias each is.
#pragma once

#include "cuda/sm90/shape.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A row of the block's tile, in shared memory.
struct alignas(32) Row {
  int offset;  // of its first output among the warpgroup's staged ones; -1: the row does not exist
  int gap;     // outputs without taps that follow its own, up to the next phase's
  int skew;    // its cout's first output: elements past a 16-byte boundary, where the first cout's is on one
  float bias;
  float scale;  // undoes the cout's
};
static_assert(sizeof(Row) == kSm90RowBytes);

template <class S>
inline constexpr int kTableRows = S::kRowBlocks* kSm90Rows;

// Once, by the threads that multiply, before a barrier: the table of rows and, where phases are skewed, for
// each place modulo the stride its lead: its column is (place - lead) / stride.
template <class S>
__device__ inline void prepare_rows(const Sm90Params& p, const Share& share, unsigned char* shared) {
  using T = typename S::Mode::T;
  constexpr int kVector = 16 / sizeof(T);
  Row* rows = reinterpret_cast<Row*>(shared + p.shared_table);
  int* leads = reinterpret_cast<int*>(rows + kTableRows<S>);
  for (int i = threadIdx.x; i < kTableRows<S>; i += kSm90Consumers) {
    const int row_block = share.run * S::kRowBlocks + i / kSm90Rows, row = i % kSm90Rows;
    const int inner = row / p.phases, phase = row % p.phases, cout = row_block * p.block_couts + inner;
    const bool there = row_block < p.row_blocks && inner < p.block_couts && cout < p.cout_group;
    const int slot = phase * p.dilation % p.stride;
    int next = p.stride;
    for (int b = 0; b < p.phases; ++b) {
      const int other = b * p.dilation % p.stride;
      if (other > slot) next = min(next, other);
    }
    rows[i].offset = there ? inner * p.row_pitch + phase * p.dilation : -1;
    rows[i].gap = next - slot - 1;
    rows[i].skew = p.skewed ? 0 : static_cast<int>(inner * (p.lout % kVector) % kVector);
    rows[i].bias = 0;
    rows[i].scale = 1;
    if (std::is_same_v<typename S::Mode, Held> && there) {
      const float* scales =
          reinterpret_cast<const float*>(static_cast<const unsigned char*>(p.packed) + p.scales_at);
      rows[i].scale = scales[int64_t{share.group} * p.cout_group + cout];
    }
    if (there) rows[i].bias = load_bias_to_add<T>(p.bias, int64_t{share.group} * p.cout_group + cout);
    if (!p.skewed || i >= p.phases) continue;  // rows 0 to phases-1 are one cout's
    for (int r = 0; r < next - slot; ++r) leads[slot + r] = phase * p.dilation + r;
  }
}

#endif

}  // namespace tconv::cuda::sm90
