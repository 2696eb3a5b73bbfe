// The pass of cuda.sm90.blocked: x into channel blocks. Memory binds: reads of a row's neighbours meet in the
// L1 cache, and units are written side by side.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/arithmetic.cuh"
#include "cuda/sm90/blocked_scale.cuh"

namespace tconv::cuda::sm90 {

// The elements of units that consist of phases of channels: channel after channel, from `phase` on. left: how
// many channels exist from the first one on.
template <int Vector, int Positions, int Unit, class Word>
__device__ inline void load_phases(const Sm90BlockingParams& p, const Word* (&from)[Positions],
                                   const int64_t (&o)[Positions], const bool (&there)[Positions], int phase,
                                   int left, Word (&values)[Positions][Unit]) {
  int a = phase;
#pragma unroll
  for (int j = 0; j < Unit; j += Vector) {
#pragma unroll
    for (int i = 0; i < Positions; ++i) {
      const int64_t at = o[i] + int64_t{a} * p.dilation;
      const bool inside = there[i] && left > 0 && static_cast<uint64_t>(at) < static_cast<uint64_t>(p.length);
      Words<Word, Vector> some{};
      if (inside) some = *reinterpret_cast<const Words<Word, Vector>*>(from[i] + at * p.from_step[2]);
#pragma unroll
      for (int q = 0; q < Vector; ++q) values[i][j + q] = some.v[q];
    }
    a += Vector;
    if (a == p.phases) {
      a = 0;
      --left;
#pragma unroll
      for (int i = 0; i < Positions; ++i) from[i] += p.from_step[1];
    }
  }
}

// Which row comes `row`-th where slabs have one phase each: rows of all phases, which read the same lines of
// x, follow one another.
__device__ inline int64_t of_slabs(const Sm90BlockingParams& p, int64_t row) {
  const int64_t rest = divide(row, p.phases), block = divide(rest, p.row_samples);
  const int64_t slab = divide(block, kSm90Blocks), phase = row - rest * p.phases;
  return ((slab * p.phases + phase) * kSm90Blocks + block - slab * kSm90Blocks) * p.row_samples + rest -
         block * p.row_samples;
}

template <class Mode>
using BlockingParams = std::conditional_t<kIsScaled<Mode>, Sm90ScaledBlockingParams, Sm90BlockingParams>;

// The row (group, channel block, row) of which a thread makes units, and what all of them have in common.
template <class Word>
struct BlockingRow {
  bool exists;
  int64_t group, block;
  int of_row, of_group, co, phase;
  const Word* from;  // the first channel, of sample 0

  template <class Params>
  __device__ BlockingRow(const Params& p, int64_t row, int unit, bool phase_slabs) : exists(row < p.rows) {
    row = exists ? row : 0;  // whole warps find the scale
    if (phase_slabs) row = of_slabs(p, row);
    block = divide(row, p.row_samples), group = divide(block, p.blocks);
    of_row = static_cast<int>(row - block * p.row_samples);
    of_group = static_cast<int>(block - group * p.blocks);
    co = of_group * unit / p.phases, phase = of_group * unit - co * p.phases;
    if (phase_slabs) {
      const int slab = of_group / kSm90Blocks, slabs = slab / p.phases;
      phase = slab - slabs * p.phases;
      co = (slabs * kSm90Blocks + of_group % kSm90Blocks) * unit;
    }
    from = static_cast<const Word*>(p.from) + (group * p.channels + co) * p.from_step[1];
  }
};

// The units of some positions, the first one at unit `first` of the row, with all loads under way together.
template <class Mode, int Vector, int Positions, class Word>
__device__ inline void load_units(const BlockingParams<Mode>& p, const BlockingRow<Word>& row, int64_t first,
                                  Word (&values)[Positions][Mode::kUnit]) {
  const Word* from[Positions];
  int64_t o[Positions];
  bool there[Positions];
#pragma unroll
  for (int i = 0; i < Positions; ++i) {
    int64_t c = first + i * p.lanes - p.front;
    int n = row.of_row;
    there[i] = row.exists && first + i * p.lanes < p.pitch;
    if (p.sample_columns > 0) {
      there[i] = there[i] && c >= 0;
      n = there[i] ? static_cast<int>(divide(c, p.sample_columns)) : 0;
      c -= int64_t{n} * p.sample_columns;
    }
    const int64_t v = p.first_u + c;
    there[i] = there[i] && v >= 0 && v < p.l && n < p.samples;
    o[i] = v * p.stride - p.padding;
    from[i] = row.from + int64_t{n} * p.from_step[0];
  }
  const int left = static_cast<int>(p.channels) - row.co;
  if (Vector == 1 && (p.phases == 1 || p.phase_slabs)) {
    // Few instructions for each load: this pass has nothing else to hide them behind.
#pragma unroll
    for (int i = 0; i < Positions; ++i) {
      o[i] += int64_t{row.phase} * p.dilation;
      there[i] = there[i] && static_cast<uint64_t>(o[i]) < static_cast<uint64_t>(p.length);
      from[i] += o[i] * p.from_step[2];
    }
#pragma unroll
    for (int j = 0; j < Mode::kUnit; ++j) {
#pragma unroll
      for (int i = 0; i < Positions; ++i) {
        values[i][j] = there[i] && j < left ? __ldg(from[i]) : Word(0);
        from[i] += p.from_step[1];
      }
    }
  } else {
    load_phases<Vector>(p, from, o, there, row.phase, left, values);
  }
}

// A thread makes the units of a row at some positions, by turns: what a row and its scale take to find out,
// which is longer than a turn, is then shared. Vector: how many phases of a channel one load brings, if they
// lie on such boundaries. at: which of the pass's blocks of threads it is in.
template <class Mode, int Vector, bool Again = false>
__device__ inline void make_channel_blocks(const BlockingParams<Mode>& p, int64_t at) {
  using Word = typename Mode::Word;
  constexpr int kPositions = kSm90BlockingPositions;
  const int64_t row_block = divide(at, p.tiles);
  const int lane = static_cast<int>(threadIdx.x) & (p.lanes - 1),
            inner = static_cast<int>(threadIdx.x) / p.lanes;
  BlockingRow<Word> row(p, row_block * (kSm90BlockingThreads / p.lanes) + inner, Mode::kUnit,
                        Vector == 1 && p.phase_slabs);
  const int64_t begin = (at - row_block * p.tiles) * p.turns * kPositions * p.lanes;
  // Units of the block's turns, counted from the first one on.
  const int units = static_cast<int>(min(p.pitch - begin, int64_t{p.turns} * kPositions * p.lanes));
  uint4* const to =
      static_cast<uint4*>(p.to) + row.block * p.block_units + int64_t{row.of_row} * p.pitch + begin;
  if constexpr (kIsScaled<Mode>) {
    const int64_t scale = row.group * p.row_samples + row.of_row;
    if constexpr (Again) row.exists = row.exists && (p.seen.beyond[scale] | p.seen.wide[scale]) != 0;
    const ScaleOfRow known = Again ? scale_again(p.seen, scale) : scale_of_row(p.seen, scale, p.lanes);
    const bool sampled = !Again && p.seen.every > 1;
    if (row.of_group == 0 && begin + lane == 0 && row.exists) {
      p.seen.exponents[scale] = known.exponent;
      if (known.tails) p.seen.wide[scale] = *p.seen.any = 1;
    }
    const float up = power_of_two(-known.exponent);
#pragma unroll 1
    for (int turn = 0; turn < units; turn += kPositions * p.lanes) {
      const int first = turn + lane;
      Word values[kPositions][Mode::kUnit];
      load_units<Mode, Vector>(p, row, begin + first, values);
      if (sampled) tell_beyond(p.seen, scale, values, known.exponent);
#pragma unroll
      for (int i = 0; i < kPositions; ++i) {
        const int unit = first + i * p.lanes;
        if (sampled) add_tiny(p.seen, scale, begin + unit, p.lanes, count_below(values[i], up, kTiny));
        if (!row.exists || unit >= units) continue;
        if (known.tails) {
          store_with_tails<Mode>(p.seen, scale, values[i], up, to + unit, p.part_units);
          continue;
        }
        const uint4 high = scaled_unit(values[i], up);
        to[unit] = high;
        if constexpr (Mode::kParts == 2) to[unit + p.part_units] = rest_of_unit(values[i], up, high);
      }
    }
  } else {
    if (!row.exists) return;
#pragma unroll 1
    for (int first = lane; first < units; first += kPositions * p.lanes) {
      Word values[kPositions][Mode::kUnit];
      load_units<Mode, Vector>(p, row, begin + first, values);
#pragma unroll
      for (int i = 0; i < kPositions; ++i) {
        uint4 parts[1];
        Mode::operand(values[i], parts);
        if (first + i * p.lanes < units) to[first + i * p.lanes] = parts[0];
      }
    }
  }
}

// Of an SM. Where x is scaled, registers for four would spill.
template <class Mode>
inline constexpr int kBlockingBlocks = kIsScaled<Mode> ? 3 : 4;

template <class Mode, int Vector>
__global__ void __launch_bounds__(kSm90BlockingThreads, kBlockingBlocks<Mode>)
    blocking_kernel(const __grid_constant__ BlockingParams<Mode> p) {
  wait_for_launch_before(p.order);
  make_channel_blocks<Mode, Vector>(p, blockIdx.x);
  wait_for_launch_beside(p.order);
}

// The pass that stands by: scales whose exponent was too small, and tails of wide ones.
template <class Mode, int Vector>
__global__ void __launch_bounds__(kSm90BlockingThreads, 3)
    blocking_again_kernel(const __grid_constant__ BlockingParams<Mode> p) {
  wait_for_launch_before({.lets_begin = true});
  if (*p.seen.any == 0) return;
  const int rows = kSm90BlockingThreads / p.lanes;  // of a block
  const int64_t blocks = divide(p.rows + rows - 1, rows) * p.tiles;
  for (int64_t at = blockIdx.x; at < blocks; at += gridDim.x) make_channel_blocks<Mode, Vector, true>(p, at);
}

}  // namespace tconv::cuda::sm90
