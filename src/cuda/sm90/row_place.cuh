// Which output channel and phase a row of packed weights is.
#pragma once

#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct RowPlace {
  int inner, cout, phase;  // of the row block's couts; of the group's; of the cout's phases

  __device__ RowPlace(const Sm90Sizes& s, int row_block, int row) {
    if (s.cout_blocks > 1) {
      inner = 0;
      cout = row_block / s.cout_blocks;
      phase = (row_block - cout * s.cout_blocks) * kSm90Rows + row;
    } else {
      inner = row / s.phases;
      cout = row_block * s.block_couts + inner;
      phase = row - inner * s.phases;
    }
  }
  // Rows of a row block may belong to no output.
  __device__ bool there(const Sm90Sizes& s) const {
    return inner < s.block_couts && cout < s.cout_group && phase < s.phases;
  }
};

// Whether a packed row has an output at column u of a sample.
template <class Params>
__device__ inline bool has_output(const Params& p, int row_block, int row, int64_t u) {
  const RowPlace at(p.sizes, row_block, row);
  const int64_t o = u * p.sizes.stride - p.sizes.padding + int64_t{at.phase} * p.sizes.dilation;
  return row_block < p.sizes.row_blocks && at.there(p.sizes) && o >= 0 && o < p.sizes.lout;
}

#endif

}  // namespace tconv::cuda::sm90
