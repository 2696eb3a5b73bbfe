// Packing of the weights w[cout][channel][k] of a strided product, in the names of its transposed form, into
// the layouts that dense.hpp describes.
//
//   for each part of a row block, some of its couts, and share of the channels:                one block
//     for each stage:                                      a piece of the couts' lines, to shared memory
//       for each 8 rows, 4 pairs of 8 channels and a tap:   one warp, 8 weights of a lane to units
//
// Stages come through shared memory, two of them under way (pack_stage.cuh). For float32 both layouts are
// written at once; or only one, if the run that follows needs no other: the scaled one, and after the main
// kernel the plain one, if that marked a tile. 8 rows are 128 bytes of a packed tap.
#pragma once

#include "cuda/sm90/pack_row.cuh"
#include "cuda/sm90/pack_stage.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// 8 rows by 4 pairs of channel block and tap for each warp, or fewer rows by more pairs. zeros: the shared
// address of a weight of 0.
template <class Mode>
__device__ inline void store_stage(const PackStages<typename Mode::Word>& stages,
                                   const typename PackStages<typename Mode::Word>::Stage& s,
                                   const uint32_t* table, uint32_t zeros, const float* scales,
                                   Extremes<Mode>& seen) {
  const Sm90PackParams& p = stages.p;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_rows = 1 << p.stage.log_warp_rows, warp_pairs = 32 >> p.stage.log_warp_rows;
  const int pairs = (s.end_block - s.first_block) * p.taps;
  const int turns = (pairs + warp_pairs - 1) >> (5 - p.stage.log_warp_rows);
  const uint32_t table_end = stages.table_end(s);
  int turn = warp;
#pragma unroll 1
  for (int first = 0; first < s.rows; first += warp_rows) {
    if (turn >= turns) {
      turn -= turns;
      continue;
    }
    const int row = first + (lane & (warp_rows - 1)), cout = static_cast<int>(p.phases_div.divide(row));
    const int phase = stages.share.first_phase + row - cout * p.phases;
    const bool there = row < s.rows && cout < s.couts && phase < p.phases;
    const uint32_t cout_address = there ? stages.cout_address(s, cout) : 0;
    const float scale = kBothLayouts<Mode> && p.scaled != nullptr && there ? scales[s.cout + cout] : 1;
    const PackedRow<Mode> to(p, stages.share.row_block, stages.share.row + s.row + row);
#pragma unroll 1
    for (; turn < turns; turn += kSm90PackThreads / 32) {
      const int pair = turn * warp_pairs + (lane >> p.stage.log_warp_rows);
      if (row >= s.rows || pair >= pairs) continue;
      const int turned = static_cast<int>(p.taps_div.divide(pair)), tap = pair - turned * p.taps;
      const int block = s.first_block + turned, k = phase + tap * p.tap_stride;
      const bool some = there && k < p.k;
      typename Mode::Word v[8] = {};
      if (!p.stage.direct) {
        stages.take(s, table, some ? table_end : 0, cout_address, block, k, zeros, v);
      } else if (some) {
        stages.take_directly(block, s.cout + cout, k, v);
      }
      to.store(p, block, tap, v, scale, seen);
    }
    turn -= turns;
  }
}

#endif

template <class Mode>
__global__ void __launch_bounds__(kSm90PackThreads, 3) pack_kernel(const __grid_constant__ Sm90PackParams p) {
  wait_to_pack(p);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ float scales[kSm90Rows];
  __shared__ uint32_t zero;
  if (!wanted(p)) return;
  const PackShare share(p);
  const PackStages<typename Mode::Word> stages(p, share, shared);
  uint32_t* table = reinterpret_cast<uint32_t*>(shared + kSm90PackBuffers * p.stage.bytes);
  const int copies = p.stage.direct ? 0 : stages.count, place = share.part * p.ranks + share.rank;
  const bool last = share.last && share.rank == p.ranks - 1;
  if (threadIdx.x == 0) zero = 0;
  if (copies > 0) stages.make_table(table);
  Extremes<Mode> seen;
#pragma unroll 1
  for (int turn = -2; turn < stages.count; ++turn) {
    if (turn >= 0) {
      ptx::copy_async_wait<1>();
      __syncthreads();
    }
    if (turn + 2 < copies) stages.copy(stages.stage(turn + 2));
    ptx::copy_async_commit();
    if constexpr (kBothLayouts<Mode>) {
      if (turn == -1 && p.scaled != nullptr) {  // while the first stages are under way
        const bool out = set_scales(p, share.group, share.cout, share.couts, share.rank == 0, scales);
        mark(share.row_block, place, last, p.scaled_marks, out);
      }
    }
    if (turn >= 0)
      store_stage<Mode>(stages, stages.stage(turn), table, ptx::shared_address(&zero), scales, seen);
  }
  if (p.packed != nullptr) mark(share.row_block, place, last, p.marks, __syncthreads_or(seen.special()) != 0);
#endif
}

}  // namespace tconv::cuda::sm90
