// Packing of the weights w[channel][cout][k] of a transposed product into the layouts that dense.hpp
// describes: from memory to registers to memory.
//
//   for each row block, tile of its rows and taps, share of the channels:                       one block
//     for each 8 rows (cout, phase), tap, row:                                                 one thread
//       for each 8 channels of the share:  8 loads; to units of the layouts; stores
//
// A warp has 8 rows (cout, phase) and 4 taps at once: it stores runs of 128 bytes, and what it loads lies
// side by side in memory, or in the lines that the block's other warps load (in the order of memory, with
// runs of a single row, n64 ci1024 co512 k9 took 1.5 times as long as through shared memory). The lines of a
// strided product are a cout's, along which loads and stores would not go together: pack.cuh.
#pragma once

#include "cuda/sm90/pack_row.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A thread's unit of a row block, for all channels.
struct StreamPlace {
  int row, tap;  // of the row block
  int cout, k;   // of the row block's couts; the weight's
  bool there;    // there is such a weight: otherwise zeros

  __device__ StreamPlace(const Sm90PackParams& p, int item, int first_phase, int couts) {
    constexpr int kRun = 8;
    const int pair = item / kRun, run = static_cast<int>(p.taps_div.divide(pair));
    tap = pair - run * p.taps;
    row = run * kRun + item % kRun;
    cout = static_cast<int>(p.phases_div.divide(row));
    const int phase = first_phase + row - cout * p.phases;
    k = phase + tap * p.tap_stride;
    there = cout < couts && phase < p.phases && k < p.k;
  }
};

// The row block, and which part of it, of a block of threads.
struct StreamShare {
  int64_t row_block, group;  // row blocks of all groups are counted
  int tile, rank;
  int cout, couts, first_phase;
  int first_block, end_block;  // of 8 channels

  __device__ explicit StreamShare(const Sm90PackParams& p) {
    const int place = static_cast<int>(p.ranks_div.divide(blockIdx.x));
    const int block = static_cast<int>(p.parts_div.divide(place));
    rank = static_cast<int>(blockIdx.x) - place * p.ranks;
    tile = place - block * p.parts;
    row_block = block;
    group = p.row_blocks_div.divide(block);
    const int of_group = block - static_cast<int>(group) * p.row_blocks, turn = of_group / p.cout_blocks;
    cout = turn * p.block_couts;
    couts = min(p.block_couts, p.cout_group - cout);
    first_phase = (of_group - turn * p.cout_blocks) * kSm90Rows;
    first_block = static_cast<int>(p.ranks_div.divide(p.channel_blocks * rank));
    end_block = static_cast<int>(p.ranks_div.divide(p.channel_blocks * (rank + 1)));
  }
};

// The weights of 8 channels of a block, from the thread's weight of the group's first channel.
template <class Word>
__device__ inline void stream_weights(const Sm90PackParams& p, const Word* from, int block, bool there,
                                      Word (&v)[8]) {
  const UnitOrder& units = p.steps.units;
  const bool in_units = units.channels > 0;
  const int first = in_units ? units.channel(block, 0) : block * 8,
            step = in_units ? 1 << units.log_classes : 1;
  const Word* at = from + first * p.steps.cin;
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    v[e] = there && first + e * step < p.channels ? __ldg(at) : Word(0);
    at += step * p.steps.cin;
  }
}

#endif

template <class Mode>
__global__ void __launch_bounds__(kSm90PackThreads)
    pack_stream_kernel(const __grid_constant__ Sm90PackParams p) {
  wait_to_pack(p);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Word = typename Mode::Word;
  __shared__ float scales[kSm90Rows];
  if (!wanted(p)) return;
  const StreamShare share(p);
  const int place = share.tile * p.ranks + share.rank;
  const bool last = share.tile == p.parts - 1 && share.rank == p.ranks - 1;
  if constexpr (kBothLayouts<Mode>) {
    if (p.scaled != nullptr) {
      const bool out =
          set_scales(p, share.group, share.cout, share.couts, place == 0 && share.first_phase == 0, scales);
      mark(share.row_block, place, last, p.scaled_marks, out);
    }
  }
  const int sub = static_cast<int>(threadIdx.x) / p.stream.items,
            subs = static_cast<int>(blockDim.x) / p.stream.items;
  const int end = min((share.tile + 1) * p.stream.tile, kSm90Rows * p.taps);
  Extremes<Mode> seen;
#pragma unroll 1
  for (int item = share.tile * p.stream.tile + static_cast<int>(threadIdx.x) - sub * p.stream.items;
       item < end; item += p.stream.items) {
    const StreamPlace at(p, item, share.first_phase, share.couts);
    const PackedRow<Mode> to(p, share.row_block, at.row);
    const float scale = kBothLayouts<Mode> && p.scaled != nullptr && at.there ? scales[at.cout] : 1;
    const Word* from = static_cast<const Word*>(p.weight) + share.group * p.steps.group +
                       (share.cout + at.cout) * p.steps.cout + at.k;
    int block = share.first_block + sub;
#pragma unroll 1
    for (; block + subs < share.end_block; block += 2 * subs) {  // two at once: more loads under way
      Word v[2][8];
      stream_weights(p, from, block, at.there, v[0]);
      stream_weights(p, from, block + subs, at.there, v[1]);
      to.store(p, block, at.tap, v[0], scale, seen);
      to.store(p, block + subs, at.tap, v[1], scale, seen);
    }
    if (block < share.end_block) {
      Word v[8];
      stream_weights(p, from, block, at.there, v);
      to.store(p, block, at.tap, v, scale, seen);
    }
  }
  if (p.packed != nullptr) mark(share.row_block, place, last, p.marks, __syncthreads_or(seen.special()) != 0);
#endif
}

}  // namespace tconv::cuda::sm90
