// What the plans of the two tensor-core families, sm80 and sm90, have in common: the sizes of a problem, its
// columns, and how a plan is chosen. Templates over the families' parameters and plans, which name these
// alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/polyphase.hpp"
#include "cuda/device/divisor.hpp"
#include "cuda/device/phases.hpp"

namespace tconv::cuda {

inline constexpr int kTensorSplits[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
inline constexpr int kAnySplits = 32;
inline constexpr int64_t kMaxPartialBytes = 256 << 20;  // where the split is free to choose

template <class T>
T round_up(T value, T to) {
  return (value + to - 1) / to * to;
}

template <class Params>
void set_sizes(Params& k, const core::Problem& p, const Phases& f) {
  k.samples = static_cast<int>(p.n);
  k.cin_group = static_cast<int>(p.cin_per_group());
  k.cout_group = static_cast<int>(p.cout_per_group());
  k.groups = static_cast<int>(p.groups);
  k.cout = p.cout;
  k.l = p.l;
  k.lout = p.lout();
  k.stride = static_cast<int>(p.stride);
  k.dilation = static_cast<int>(p.dilation);
  k.padding = static_cast<int>(p.padding);
  k.phases = static_cast<int>(f.count);
  k.taps = static_cast<int>(f.taps);
  k.step = static_cast<int>(f.step);
  k.stride_div = Divisor::of(static_cast<uint32_t>(p.stride));
  const auto steps = p.x_steps();
  k.x_step[0] = steps[0];
  k.x_step[1] = steps[1];
}

// Columns of a sample from k.first_u on: every u that an output has, be it of a phase or of bias alone.
template <class Params>
void set_columns(Params& k, const core::Problem& p, const Phases& f, int tile_columns, bool folded) {
  const int64_t last = core::floor_div(p.lout() - 1 + p.padding, p.stride);
  int64_t columns = std::max<int64_t>(1, last - k.first_u + 1);
  int64_t tiles = 0;
  k.folded = folded;
  if (folded) {
    // A tap that reaches back over the sample's begin must meet the zeros behind the sample before.
    k.first_u = std::min<int64_t>(k.first_u, 0);
    columns = std::max(last - k.first_u + 1, p.l + (f.taps - 1) * f.step - k.first_u);
    k.sample_columns = static_cast<int>(columns);
    k.sample_pitch = Divisor::of(static_cast<uint32_t>(columns));
    tiles = core::ceil_div(p.n * columns, tile_columns);
  } else {
    const int64_t each = core::ceil_div(columns, tile_columns);
    k.sample_columns = static_cast<int>(each * tile_columns);
    k.sample_tiles = Divisor::of(static_cast<uint32_t>(each));
    tiles = p.n * each;
  }
  k.column_tiles = static_cast<int>(tiles);
  k.partial_columns = tiles * tile_columns;
}

inline bool may_fold(const core::Problem& p, const Phases& f) {
  // Between samples lie zeros as far as taps reach, which may be far more columns than outputs need.
  const int64_t columns = f.positions + p.l + (f.taps - 1) * f.step;
  return p.n > 1 && f.positions < 256 && columns <= 32 * std::max<int64_t>(32, f.positions) &&
         p.n * columns < (int64_t{1} << 30);
}

// Splits that all samples share, however many there are: their sums are to be no more than this many times y,
// whatever padding cuts off.
inline int most_shared_splits(const core::Problem& p, const Phases& f) {
  constexpr int64_t kMost = 64;
  const int64_t sums = std::max<int64_t>(1, f.positions * f.count);
  return static_cast<int>(std::clamp<int64_t>(kMost * p.lout() / sums, 1, kMost));
}

// ", rows (64 cout, 2 phases), depth 128 channels x 2 taps"
inline std::string rows_and_depth(const core::Problem& p, const Phases& f) {
  return ", rows (" + std::to_string(p.cout_per_group()) + " cout, " + std::to_string(f.count) +
         " phases), depth " + std::to_string(p.cin_per_group()) + " channels x " + std::to_string(f.taps) +
         " taps";
}

}  // namespace tconv::cuda
