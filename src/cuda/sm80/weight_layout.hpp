// The layout of a weight gradient's tiles and stages, which cuda.sm80.weight and cuda.sm90.weight share.
// Pure functions; no CUDA here.
#pragma once

#include <algorithm>
#include <vector>

#include "core/problem.hpp"
#include "cuda/sm80/weight.hpp"

namespace tconv::cuda {

// Sizes and steps of the problem.
void set_weight_sizes(WeightParams& k, const core::Problem& p);

// Taps of a block: the taps of the problem's phases, in even blocks of at most `most`.
int weight_block_taps(int64_t taps, int64_t most);

// Blocks of at most `columns` columns (co, phase, tap); tiles of `rows` ci.
void set_weight_blocks(WeightParams& k, int rows, int columns, int block_taps, int block_couts,
                       int64_t groups);

// Pieces of positions of a sample, and stages of pieces.
void set_weight_pieces(WeightParams& k, const core::Problem& p, int piece, int stage_pieces);

// How many neighbouring columns are neighbours in dw too: at most as many as share 32 bytes there, and as
// many as half a warp has.
int weight_run(const WeightParams& k, int element);

// Outputs of a piece: from the first tap of its first position to the last tap of its last position.
int64_t weight_reach(const WeightParams& k);

// Sets the splits, at most one for each stage; one split whose sums are a single chain stores dw itself.
void set_weight_splits(WeightParams& k, int& wanted);

// Bytes from one row of dy to the next in shared memory. exact: searches for the fewest bank conflicts;
// otherwise the most that this can be.
inline constexpr int kWeightPitchSlack = 112;
int weight_y_pitch(const WeightParams& k, int element, int columns, bool exact);

// How many threads copy a line, `unit` elements at a time: the power of two that takes the fewest
// instructions, of which a line and each sixteen bytes of it count so many. threads: of a block, a power of
// two.
inline constexpr int kWeightLine = 158, kWeightLineUnit = 51;
int weight_line_shift(const WeightParams& k, int unit, int threads);

// The numbers of taps that a block may have, in falling order, and for each a bound of the predicted times.
struct WeightTaps {
  static constexpr int kMost = 12;
  int count = 0;
  int taps[kMost];
  double least[kMost];
};
// rows, columns: of a tile, in ci and in (cout, phase, tap). least(tiles): for that many.
template <class Least>
WeightTaps weight_taps(const core::Problem& p, WeightParams k, int rows, int columns, const Least& least) {
  WeightTaps all;
  for (int64_t most = std::min<int64_t>(p.k, columns); most >= 1 && all.count < WeightTaps::kMost;
       most /= 2) {
    const int taps = weight_block_taps(k.taps, most);
    if (all.count > 0 && taps == all.taps[all.count - 1]) continue;
    const int couts = static_cast<int>(std::min<int64_t>(p.cout_per_group(), columns));
    set_weight_blocks(k, rows, columns, taps, couts, p.groups);
    all.taps[all.count] = taps;
    all.least[all.count++] = least(int64_t{k.tiles});
  }
  return all;
}

// Tiles in rising order of their bounds: a search finds the best early, and leaves out the others.
struct WeightTileTaps {
  double least;  // of all numbers of taps
  int tile;
  WeightTaps taps;
};
// taps_of(tile): none if the mode does not have the tile.
template <class TapsOf>
std::vector<WeightTileTaps> weight_tiles_by_bound(int tiles, const TapsOf& taps_of) {
  std::vector<WeightTileTaps> all;
  for (int tile = 0; tile < tiles; ++tile) {
    const WeightTaps taps = taps_of(tile);
    if (taps.count > 0) all.push_back({*std::min_element(taps.least, taps.least + taps.count), tile, taps});
  }
  std::ranges::stable_sort(all, {}, &WeightTileTaps::least);
  return all;
}

}  // namespace tconv::cuda
