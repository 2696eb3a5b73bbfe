// The sizes of a problem in the form that the tensor-core kernels take, and its columns. Templates over the
// families' parameters, which use the same names.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "core/device_info.hpp"
#include "core/polyphase.hpp"
#include "cuda/device/divisor.hpp"
#include "cuda/device/ordered_sum.hpp"
#include "cuda/device/phases.hpp"

namespace tconv::cuda {

// What parts of a cost take together that mostly overlap: hardly more than the longest of them.
inline double mostly_the_longest(std::initializer_list<double> parts) {
  double fourths = 0;
  for (const double part : parts) fourths += part * part * part * part;
  return std::sqrt(std::sqrt(fourths));
}

template <class T>
T round_up(T value, T to) {
  return (value + to - 1) / to * to;
}

// Steps of both tensors, under the names that kernels of weight gradients use.
template <class Params>
void set_steps(Params& k, const core::Problem& p) {
  const auto x = p.x_steps(), y = p.y_steps();
  for (std::size_t i = 0; i < 3; ++i) k.x_step[i] = x[i], k.y_step[i] = y[i];
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

// Columns of a sample from k.first_u on: every u that has an output, whether of a phase or of bias alone.
template <class Params>
void set_columns(Params& k, const core::Problem& p, const Phases& f, int tile_columns, bool folded) {
  const int64_t last = core::floor_div(p.lout() - 1 + p.padding, p.stride);
  int64_t columns = std::max<int64_t>(1, last - k.first_u + 1);
  int64_t tiles = 0;
  k.folded = folded;
  if (folded) {
    // A tap that reaches back over a sample's beginning must meet the zeros after the sample before it.
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

// Rows r with the same r modulo this begin equally far behind `vector` elements, of which a tensor copy
// begins on a multiple. row: elements from one row to the next, more than 0.
int row_classes(int64_t row, int vector);

// Whether tensor copies can step over `rows` rows and, where there are several, from sample to sample. row,
// sample: elements from one to the next, more than 0.
bool copies_reach(const core::Problem& problem, int64_t row, int64_t rows, int64_t sample);

// Whether every row of y begins on 16 bytes if y does.
bool rows_on_vectors(const core::Problem& problem);

// Whether y goes from L2 to memory in pieces of sectors: its rows begin anywhere, and L2 holds so little of
// it that a sector is evicted before its other piece is written.
bool writes_pieces(const core::Problem& problem, const core::DeviceInfo& device);

// core::work_of(), kept because a search asks for it for every candidate of one problem.
const core::Work& problem_work(const core::Problem& problem);

// What a sum of partial sums needs to know of a problem; the family adds rows and columns.
PhaseSumParams phase_sum_params(const core::Problem& problem, const Phases& phases);

}  // namespace tconv::cuda
