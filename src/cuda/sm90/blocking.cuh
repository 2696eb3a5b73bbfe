// The pass of cuda.sm90.blocked: x into channel blocks. Memory binds: reads of a row's neighbours meet in the
// L1 cache, and units are written side by side.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/arithmetic.cuh"
#include "cuda/sm90/blocked_scale.cuh"

namespace tconv::cuda::sm90 {

// `Vector` contiguous words.
template <class Word, int Vector>
struct alignas(sizeof(Word) * Vector) Words {
  Word v[Vector];
};

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

// A thread makes the units of some positions of a row (group, channel block, row), with all loads under way
// together. Vector: how many phases of a channel one load brings, if they lie on such boundaries. at: which
// of the pass's blocks of threads it is in.
template <class Mode, int Vector, bool Again = false>
__device__ inline void make_channel_blocks(const BlockingParams<Mode>& p, int64_t at) {
  using Word = typename Mode::Word;
  constexpr int kPositions = 2;
  const int64_t row_block = divide(at, p.tiles);
  const int lane = static_cast<int>(threadIdx.x) & (p.lanes - 1),
            inner = static_cast<int>(threadIdx.x) / p.lanes;
  int64_t row = row_block * (kSm90BlockingThreads / p.lanes) + inner;
  const int64_t first = (at - row_block * p.tiles) * kPositions * p.lanes + lane;
  bool exists = row < p.rows && first < p.pitch;
  if constexpr (!kIsScaled<Mode>) {
    if (!exists) return;
  } else {
    row = exists ? row : 0;  // whole warps find the scale
  }
  if (Vector == 1 && p.phase_slabs) row = of_slabs(p, row);
  const int64_t block = divide(row, p.row_samples), group = divide(block, p.blocks);
  const int of_group = static_cast<int>(block - group * p.blocks);
  if constexpr (Again) {
    const int64_t scale = group * p.row_samples + row - block * p.row_samples;
    exists = exists && (p.seen.beyond[scale] | p.seen.wide[scale]) != 0;
  }
  int co = of_group * Mode::kUnit / p.phases, phase = of_group * Mode::kUnit - co * p.phases;
  if (Vector == 1 && p.phase_slabs) {
    const int slab = of_group / kSm90Blocks, slabs = slab / p.phases;
    phase = slab - slabs * p.phases;
    co = (slabs * kSm90Blocks + of_group % kSm90Blocks) * Mode::kUnit;
  }
  const Word* from[kPositions];
  int64_t o[kPositions];
  bool there[kPositions];
#pragma unroll
  for (int i = 0; i < kPositions; ++i) {
    int64_t c = first + i * p.lanes - p.front, n = row - block * p.row_samples;
    there[i] = exists && first + i * p.lanes < p.pitch;
    if (p.sample_columns > 0) {
      there[i] = there[i] && c >= 0;
      n = there[i] ? divide(c, p.sample_columns) : 0;
      c -= n * p.sample_columns;
    }
    const int64_t v = p.first_u + c;
    there[i] = there[i] && v >= 0 && v < p.l && n < p.samples;
    o[i] = v * p.stride - p.padding;
    from[i] =
        static_cast<const Word*>(p.from) + n * p.from_step[0] + (group * p.channels + co) * p.from_step[1];
  }
  Word values[kPositions][Mode::kUnit];
  if (Vector == 1 && (p.phases == 1 || p.phase_slabs)) {
    // Few instructions for each load: this pass has nothing else to hide them behind.
    const int left = static_cast<int>(p.channels) - co;
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      o[i] += int64_t{phase} * p.dilation;
      there[i] = there[i] && static_cast<uint64_t>(o[i]) < static_cast<uint64_t>(p.length);
      from[i] += o[i] * p.from_step[2];
    }
#pragma unroll
    for (int j = 0; j < Mode::kUnit; ++j) {
#pragma unroll
      for (int i = 0; i < kPositions; ++i) {
        values[i][j] = there[i] && j < left ? __ldg(from[i]) : Word(0);
        from[i] += p.from_step[1];
      }
    }
  } else {
    load_phases<Vector>(p, from, o, there, phase, static_cast<int>(p.channels) - co, values);
  }
  const int64_t of_row = row - block * p.row_samples;
  uint4* to = static_cast<uint4*>(p.to) + block * p.block_units + of_row * p.pitch + first;
  if constexpr (kIsScaled<Mode>) {
    const int64_t scale = group * p.row_samples + of_row;
    const ScaleOfRow known = Again ? scale_again(p.seen, scale) : scale_of_row(p.seen, scale, p.lanes);
    const bool sampled = !Again && p.seen.every > 1;
    if (sampled) tell_beyond(p.seen, scale, values, known.exponent);
    if (of_group == 0 && first == 0 && exists) {
      p.seen.exponents[scale] = known.exponent;
      if (known.tails) p.seen.wide[scale] = *p.seen.any = 1;
    }
    const float up = power_of_two(-known.exponent);
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      if (sampled) add_tiny(p.seen, scale, first + i * p.lanes, p.lanes, count_below(values[i], up, kTiny));
      if (!exists || first + i * p.lanes >= p.pitch) continue;
      uint4* const to_unit = to + i * p.lanes;
      if (known.tails) {
        store_with_tails<Mode>(p.seen, scale, values[i], up, to_unit, p.part_units);
        continue;
      }
      const uint4 unit = scaled_unit(values[i], up);
      to_unit[0] = unit;
      if constexpr (Mode::kParts == 2) to_unit[p.part_units] = rest_of_unit(values[i], up, unit);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      uint4 parts[1];
      Mode::operand(values[i], parts);
      if (first + i * p.lanes < p.pitch) to[i * p.lanes] = parts[0];
    }
  }
}

template <class Mode, int Vector>
__global__ void __launch_bounds__(kSm90BlockingThreads)
    blocking_kernel(const __grid_constant__ BlockingParams<Mode> p) {
  wait_for_launch_before(p.order);
  make_channel_blocks<Mode, Vector>(p, blockIdx.x);
  wait_for_launch_beside(p.order);
}

// The pass that stands by: scales whose exponent was too small, and tails of wide ones.
template <class Mode, int Vector>
__global__ void __launch_bounds__(kSm90BlockingThreads)
    blocking_again_kernel(const __grid_constant__ BlockingParams<Mode> p) {
  wait_for_launch_before({.lets_begin = true});
  if (*p.seen.any == 0) return;
  const int rows = kSm90BlockingThreads / p.lanes;  // of a block
  const int64_t blocks = divide(p.rows + rows - 1, rows) * p.tiles;
  for (int64_t at = blockIdx.x; at < blocks; at += gridDim.x) make_channel_blocks<Mode, Vector, true>(p, at);
}

}  // namespace tconv::cuda::sm90
