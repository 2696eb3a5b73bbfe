// Which weights a block of threads packs (pack.cuh).
#pragma once

#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct PackShare {
  int64_t row_block, group;    // row blocks of all groups are counted
  int part, rank;              // of the row block's parts, of the part's blocks
  bool last;                   // part
  int cout, couts;             // the group's couts [cout, cout + couts)
  int row, rows;               // of the row block
  int first_phase;             // of row 0: not 0 if a cout has several row blocks
  int first_block, end_block;  // of 8 channels of the product, in whole granules

  __device__ explicit PackShare(const Sm90PackParams& p) {
    const int place = static_cast<int>(p.ranks_div.divide(blockIdx.x));
    const int block = static_cast<int>(p.parts_div.divide(place));
    rank = static_cast<int>(blockIdx.x) - place * p.ranks;
    part = place - block * p.parts;
    last = part == p.parts - 1;
    row_block = block;
    group = p.row_blocks_div.divide(block);
    const int inner = part * p.part_couts, end = min(inner + p.part_couts, p.block_couts);
    const int of_group = block - static_cast<int>(group) * p.row_blocks, turn = of_group / p.cout_blocks;
    cout = turn * p.block_couts + inner;
    first_phase = (of_group - turn * p.cout_blocks) * kSm90Rows;
    couts = max(0, min(end - inner, p.cout_group - cout));
    row = inner * p.phases;
    rows = (last ? kSm90Rows : end * p.phases) - row;
    const int blocks = p.stage.granule * p.steps.phases / 8;
    first_block = static_cast<int>(p.ranks_div.divide(p.granules * rank)) * blocks;
    end_block = min(static_cast<int>(p.ranks_div.divide(p.granules * (rank + 1))) * blocks, p.channel_blocks);
  }
};

#endif

}  // namespace tconv::cuda::sm90
