// The layout of a weight gradient's tiles and stages: weight_layout.hpp.
#include "cuda/sm80/weight_layout.hpp"

#include <algorithm>
#include <bit>
#include <climits>
#include <vector>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/geometry.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// Splits `all` evenly into the least number of blocks of at most `most`: the size of one.
int even_block(int64_t count, int64_t most) {
  return static_cast<int>(ceil_div(count, ceil_div(count, std::max<int64_t>(1, std::min(count, most)))));
}

// Where the first lane of a column reads first, as in the kernel's Lane: rows (cout) and elements from the
// first element of dy on, and `shift` for how much further it reads in samples that begin behind a 16-byte
// boundary.
struct ColumnPlace {
  int64_t elements;
  int cout, shift;
};

ColumnPlace place_of(const WeightParams& k, int unit, int column) {
  const int c = column < k.rows * k.block_taps ? column : 0;
  const int tap = c / k.rows, row = c - tap * k.rows, cout = row / k.block_phases,
            phase = row % k.block_phases;
  return {int64_t{tap} * k.step * k.stride + int64_t{phase} * k.dilation, cout,
          static_cast<int>(cout * (k.y_step[1] % unit) % unit)};
}

// The passes of one load: lanes of the same word share a pass, lanes of the same bank take turns.
int passes_of(const int64_t* words, int lanes, int banks) {
  int count[32] = {}, first[32], next[32], most = 1;
  for (int lane = 0; lane < lanes; ++lane) {
    const auto bank = static_cast<std::size_t>(words[lane] & (banks - 1));
    int other = count[bank] == 0 ? -1 : first[bank];
    while (other >= 0 && words[other] != words[lane]) other = next[other];
    if (other < 0) most = std::max(most, count[bank] + 1);
    next[lane] = count[bank] == 0 ? -1 : first[bank];
    first[bank] = lane;
    ++count[bank];
  }
  return most;
}

// The passes through shared memory that the loads of all columns take, if rows are this far apart; counts no
// further than `enough`.
int passes_of(const WeightParams& k, int element, const std::vector<ColumnPlace>& columns, int64_t pitch,
              int enough) {
  const int word_shift = element == 8 ? 3 : 2, banks = 128 >> word_shift, lanes = element == 8 ? 16 : 32;
  const int unit = 16 / element, skew_step = std::max(1, 8 / element);
  const int64_t apart = int64_t{element == 2 ? 2 : 1} * k.stride * element;  // of a column's lanes
  // Where rows begin on 16 bytes, a skew moves all lanes by the same words, and changes no pass.
  const bool alike = k.y_step[1] % unit == 0;
  const int skews = alike ? 1 : unit / skew_step, each = alike ? unit / skew_step : 1;
  int passes = 0;
  for (int skew = 0; skew < skews * skew_step; skew += skew_step) {
    for (std::size_t first = 0; first < columns.size() && passes < enough; first += lanes / 4) {
      int64_t words[32];
      for (int column = 0; column < lanes / 4; ++column) {
        const ColumnPlace& at = columns[first + column];
        const int64_t place = at.cout * pitch + (at.elements + (skew + at.shift) % unit) * element;
        for (int lane = 0; lane < 4; ++lane) words[4 * column + lane] = (place + lane * apart) >> word_shift;
      }
      passes += each * passes_of(words, lanes, banks);
    }
  }
  return passes;
}

int best_pitch(const WeightParams& k, int element, int columns, int64_t least) {
  int64_t best = least;
  // For a lane's columns and skews, counted as in passes_of(): one pass each if no bank has two words.
  const int skews = 16 / element / std::max(1, 8 / element);
  const int loads = skews * static_cast<int>(ceil_div(columns, element == 8 ? 4 : 8));
  int fewest = INT_MAX;
  std::vector<ColumnPlace> places;
  places.reserve(static_cast<std::size_t>(columns));
  for (int column = 0; column < columns; ++column) places.push_back(place_of(k, 16 / element, column));
  for (int64_t pitch = least; pitch <= least + kWeightPitchSlack; pitch += 16) {
    const int passes = passes_of(k, element, places, pitch, fewest);
    if (passes < fewest) best = pitch, fewest = passes;
    if (fewest == loads) break;
  }
  return static_cast<int>(best);
}

}  // namespace

void set_weight_sizes(WeightParams& k, const Problem& p) {
  const Phases f = phases_of(p);
  set_steps(k, p);
  k.l = p.l, k.lout = p.lout(), k.padding = p.padding;
  k.cin_group = static_cast<int>(p.cin_per_group());
  k.cout_group = static_cast<int>(p.cout_per_group());
  k.k = static_cast<int>(p.k);
  k.stride = static_cast<int>(p.stride);
  k.dilation = static_cast<int>(p.dilation);
  k.phases = static_cast<int>(f.count);
  k.taps = static_cast<int>(f.taps);
  k.tap_stride = static_cast<int>(f.tap_stride);
  k.step = static_cast<int>(f.step);
}

int weight_block_taps(int64_t taps, int64_t most) {
  return even_block(taps, most);
}

void set_weight_blocks(WeightParams& k, int rows, int columns, int block_taps, int block_couts,
                       int64_t groups) {
  k.block_taps = weight_block_taps(k.taps, std::min(block_taps, columns));
  const int most = std::max(1, columns / k.block_taps);
  k.block_phases = even_block(k.phases, most);
  k.block_couts =
      k.block_phases < k.phases ? 1 : even_block(k.cout_group, std::min(block_couts, most / k.phases));
  k.rows = k.block_couts * k.block_phases;
  k.row_tiles = static_cast<int>(ceil_div(k.cin_group, rows));
  k.cout_blocks = static_cast<int>(ceil_div(k.cout_group, k.block_couts));
  k.phase_blocks = static_cast<int>(ceil_div(k.phases, k.block_phases));
  k.tap_blocks = static_cast<int>(ceil_div(k.taps, k.block_taps));
  k.tiles = static_cast<int>(groups * k.row_tiles * k.cout_blocks * k.phase_blocks * k.tap_blocks);
}

int weight_run(const WeightParams& k, int element) {
  const int run = k.taps == 1 && k.phases == k.k ? k.rows : k.block_phases;
  return std::min({run, 16, 32 / element});
}

int64_t weight_reach(const WeightParams& k) {
  return int64_t{k.stride} * (k.piece - 1 + int64_t{k.block_taps - 1} * k.step) +
         int64_t{k.block_phases - 1} * k.dilation + 1;
}

void set_weight_pieces(WeightParams& k, const Problem& p, int piece, int stage_pieces) {
  const int unit = static_cast<int>(16 / size_of(p.dtype));
  k.piece = piece;
  k.stage_pieces = stage_pieces;
  k.piece_shift = std::countr_zero(static_cast<unsigned>(k.piece));
  k.pieces_shift = std::countr_zero(static_cast<unsigned>(k.stage_pieces));
  k.sample_pieces = static_cast<int>(ceil_div(p.l, k.piece));
  k.pieces = p.lout() == 0 ? 0 : static_cast<int>(p.n * k.sample_pieces);
  k.stages = static_cast<int>(ceil_div(k.pieces, k.stage_pieces));
  k.piece_pitch = static_cast<int>(round_up<int64_t>(weight_reach(k) + unit - 1, unit));
  k.by_sample = Divisor::of(static_cast<uint32_t>(k.sample_pieces));
}

int weight_y_pitch(const WeightParams& k, int element, int columns, bool exact) {
  const int64_t least = int64_t{k.stage_pieces} * k.piece_pitch * element;
  return exact ? best_pitch(k, element, columns, least) : static_cast<int>(least + kWeightPitchSlack);
}

int weight_line_shift(const WeightParams& k, int unit, int threads) {
  const int64_t lines = int64_t{k.block_couts} * k.stage_pieces, units = k.piece_pitch / unit;
  const int threads_shift = std::countr_zero(static_cast<unsigned>(threads));
  int best = 5;
  int64_t least = 0;
  for (int shift = 5; shift >= 0; --shift) {
    const int64_t turns = ((lines << shift) + threads - 1) >> threads_shift;
    const int64_t cost = turns * (kWeightLine + kWeightLineUnit * ((units + (1 << shift) - 1) >> shift));
    if (least == 0 || cost < least) best = shift, least = cost;
  }
  return best;
}

void set_weight_splits(WeightParams& k, int& wanted) {
  k.splits = wanted = std::max(1, std::min(wanted, k.stages));
  k.direct = k.splits == 1 && k.stages <= k.chain;
}

}  // namespace tconv::cuda
