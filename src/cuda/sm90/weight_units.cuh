// The shifts, units and positions of a tile's stages (weight_units.hpp).
#pragma once

#include "cuda/sm90/weight_blocked_repair.cuh"
#include "cuda/sm90/weight_units.hpp"

namespace tconv::cuda::sm90::weight_units {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using weight_blocked::Place;
using weight_blocked::RowBlock;

// The x planes and shifts that a tile's row blocks have.
struct TileTaps {
  int first_block, blocks;  // of 64 planes
  int last_tap;  // of all row blocks: a slot's planes begin that many shifts before its first position

  __device__ TileTaps(const Sm90WeightBlockedParams& p, const Place& at, int row_blocks) {
    const RowBlock first(p, at.row_block), last(p, min(at.row_block + 2 * row_blocks, p.row_blocks) - 1);
    first_block = first.plane / 64;
    blocks = last.plane / 64 - first_block + 1;
    last_tap = blocks == 1 ? last.tap : p.taps - 1;
  }
};

// The units (8 channels) of an operand that a tile has.
struct Units {
  int first, count;
  int start;        // positions before the stage's first one where planes begin
  int first_plane;  // the tile's first 8 planes, and how many
  int planes;
};
template <class S>
struct TileUnits {
  Units x, y;
  template <class Params>
  __device__ TileUnits(const Params& p, const Place& at, const TileTaps& taps) {
    x.first = x.first_plane = taps.first_block * 8;
    // With several shifts there is one block of planes.
    x.count = p.x_planes > 1 ? p.x_raw.blocks : min(taps.blocks * 8, p.x_raw.blocks - x.first);
    x.planes = x.count * p.x_planes;
    x.start = taps.last_tap * p.shift + (p.x_planes - 1) * p.x_raw.step;
    y.first_plane = at.column / 8;
    y.planes = S::kN / 8;
    y.first = static_cast<int>(p.by_y_planes.divide(y.first_plane));
    const int last = static_cast<int>(p.by_y_planes.divide(y.first_plane + y.planes - 1));
    y.count = min(last + 1, p.y_raw.blocks) - y.first;
    y.start = 0;
  }
};

// The sample and first position of a stage.
struct StagePlace {
  int sample, u;
  __device__ StagePlace(const Sm90WeightUnitsParams& p, int stage) {
    sample = static_cast<int>(p.by_sample_stages.divide(stage));
    u = static_cast<int>(p.first_u) + (stage - sample * p.sample_stages) * p.stage_positions;
  }
};

#endif

}  // namespace tconv::cuda::sm90::weight_units
