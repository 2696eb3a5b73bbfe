// Which weights a block of threads packs, and what a cluster's blocks tell each other about them (pack.cuh).
#pragma once

#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

inline constexpr uint32_t kNoWeight = 0xffffffffu;  // a least magnitude, less 1

// What each of the cluster's blocks saw.
struct Looked {
  uint32_t most[kSm90PackRanks][kSm90Rows];   // of a cout's finite magnitudes the largest, as bits
  uint32_t least[kSm90PackRanks][kSm90Rows];  // the least that is not zero, less 1; or kNoWeight
  // Whether a weight is not finite, or too much for the mode: one exchange after the other.
  uint32_t special[2][kSm90PackRanks];
};

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

// Whether any block of the cluster says yes; all of them have begun. What they stored to each other has
// arrived then. Exchange: a different one for each call, as a block may begin one before another has read the
// one before.
template <int Exchange>
__device__ inline bool any_of_cluster(const Sm90PackParams& p, const PackShare& share, Looked& looked,
                                      bool mine) {
  uint32_t(&special)[kSm90PackRanks] = looked.special[Exchange];
  const int thread = static_cast<int>(threadIdx.x);
  if (!p.cluster) return mine;
  if (thread < p.ranks) ptx::store_cluster4(ptx::shared_address(&special[share.rank]), thread, mine);
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
  return __syncthreads_or(thread < p.ranks && special[thread] != 0) != 0;
}

// A mark for the cluster's part, or the block's own; the last one also clears the marks after it.
__device__ inline void mark(const Sm90PackParams& p, const PackShare& share, unsigned char* marks,
                            bool marked) {
  const int thread = static_cast<int>(threadIdx.x),
            place = p.cluster ? share.part : share.part * p.ranks + share.rank;
  const bool last = share.last && (p.cluster || share.rank == p.ranks - 1);
  if ((p.cluster && share.rank != 0) || thread < place || thread >= (last ? kSm90RowMarks : place + 1))
    return;
  marks[share.row_block * kSm90RowMarks + thread] = marked && thread == place;
}

// Tells the cluster's other blocks what this one saw.
__device__ inline void tell(const Sm90PackParams& p, const PackShare& share, Looked& looked) {
  for (int i = threadIdx.x; i < p.ranks * share.couts; i += kSm90PackThreads) {
    const int rank = i / share.couts, cout = i - rank * share.couts;
    if (rank == share.rank) continue;
    uint32_t *most = &looked.most[share.rank][cout], *least = &looked.least[share.rank][cout];
    ptx::store_cluster4(ptx::shared_address(most), rank, *most);
    ptx::store_cluster4(ptx::shared_address(least), rank, *least);
  }
}

#endif

}  // namespace tconv::cuda::sm90
