// What cuda.sm90.weight_turned and cuda.sm90.weight_rows have in common. Both read x and dy as they lie in
// memory, by tensor copies, and make the planes of cuda.sm90.weight_blocked from them in units of 8 channels.
//
// A tensor copy begins on 16 bytes, so the rows of a unit begin equally far behind them: UnitOrder says which
// channels a unit has. A class is the rows that do so; those of a class are 1, 2, 4 or 8 rows apart.
//
// Rows of the product are (v, unit, channel) for the shifts v of x that are planes, columns are (unit, phase,
// channel). Stages are `stage_positions` positions of one sample.
//
// Where the problem has a bias that is y's, the warps that make dy's planes also sum dy, as it is before it
// is rounded (weight_bias.cuh). Stages then reach all of dy, and rows of a box all that lies between phases.
#pragma once

#include "cuda/sm90/weight_blocked.hpp"

namespace tconv::cuda {

// An operand's rows in memory and, in shared memory, those that a stage needs.
struct Sm90WeightUnitRows {
  TensorMap maps[kSm90MaxRowClasses];
  int32_t late[kSm90MaxRowClasses];  // elements by which rows of a class begin behind 16 bytes
  int32_t blocks;                    // of 8 channels, of a group
  int32_t log_classes;
  int32_t stride, phases, padding;  // the row's place of plane a at position u: stride*u + a - padding
  int32_t columns;                  // positions that the planes of all shifts read
  int32_t shifts, step;             // v; positions from one to the next
  int32_t boxes, box_columns;       // of a unit's positions; columns of each
  int32_t width;                    // elements of a row of a box
};

struct Sm90WeightUnitsParams : Sm90WeightBlockedParams {
  int32_t sample_stages;
  Divisor by_sample_stages;
  int32_t x_blocks;    // of 64 planes, of a tile
  bool sums_y;         // dy is summed
  int32_t bias_at;     // bytes behind the slots' begin, of the float64 sums of the warps that do so
  int32_t bias_each;   // parts of a channel's sum
  double* bias_parts;  // [channel of y][part]
};

// Adds the parts of the channels' sums.
struct Sm90WeightBiasParams {
  const double* parts;
  void* output;
  int64_t channels;
  int32_t each;
};
inline constexpr int kSm90WeightBiasThreads = 128;  // a warp a channel
// Bytes of shared memory for the sums of `columns` columns by `warps` warps.
constexpr int weight_bias_bytes(int columns, int warps) {
  return columns * warps * static_cast<int>(sizeof(double));
}

}  // namespace tconv::cuda
