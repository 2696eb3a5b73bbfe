// Host side of strided_staged.cuh: the way of cuda.simt.strided whose threads hold tiles of rows x positions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device_info.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

struct Holder;  // cuda/plan/report.hpp

namespace simt {

// A thread's rows (channels ci) x positions. 16 x 4 was slower than 8 x 8 on nearly all layers.
struct StridedTile {
  int rows, positions;
  constexpr int sums() const { return rows * positions; }
  bool operator==(const StridedTile&) const = default;
};
inline constexpr StridedTile kStridedTiles[] = {{1, 4}, {1, 8}, {2, 8}, {4, 4}, {4, 8}, {8, 4}, {8, 8}};
// The most threads of a block, and the number of blocks per SM for which registers must suffice. Under a
// tighter cap, more multiply-adds read two operands from one register bank: with 8 x 8 sums, 128
// multiply-adds take 190 cycles in 151 registers and 248 in 128.
constexpr int strided_most_threads(int sums) {
  return sums > 32 ? 128 : 256;
}
constexpr int strided_least_blocks(int sums) {
  return sums > 32 || sums <= 8 ? 3 : 2;
}

// What the ways of the family are told of a problem.
struct StridedOperands {
  const void* dy;
  const void* weight;
  const void* bias;  // or null
  void* dx;
  int64_t dy_step[3];  // sample, channel, position
  int64_t l, lout, k;
  int64_t stride, padding, dilation;
  int64_t cin, cin_group, cout_group, groups;
};

struct StridedStagedParams : StridedOperands {
  int64_t row_blocks, parts;  // of a group's ci, of a row's positions
  int64_t blocks;
  int32_t warps_p, warps_r, warps_s;  // of a block: along positions, rows, terms of a sum
  int32_t channels, stages;           // of a stage; stages in shared memory
  int32_t slots, slot_row, slot_pitch, tap_step;
  int32_t channel_pitch, weight_pitch;
  bool contiguous;                  // windows lie as in memory
  int32_t weights_at, stage_words;  // in a stage
  int32_t ring_at;                  // behind the table of terms
  // Threads that copy one channel, channels that are copied at once; from a thread's element to its next.
  int32_t copy_lanes, copy_runs, u_step, j_step;
};

using StridedStagedFunction = void (*)(StridedStagedParams);
inline constexpr int64_t kStridedMostStep = 3;
// step: words between positions in shared memory.
StridedStagedFunction strided_staged_function(const StridedTile& tile, int64_t step);

// How the work is cut.
//
// A channel of dy lies in shared memory as `slots` rows: with g = gcd(stride, dilation), tap k reads slot
// k mod (stride/g) from place i + k div (stride/g) * tap_step, so that positions that lie side by side in x
// do so there, whatever the stride. At strides 1 to 3 a channel is one row as in memory, in whole vectors of
// 16 bytes, and positions lie `step` words apart.
struct StridedStagedConfig {
  StridedTile tile = {1, 4};
  int64_t warps_p = 1, warps_r = 1, warps_s = 1;
  int64_t channels = 1, stages = 1;
  int64_t slots = 1, slot_row = 1, slot_pitch = 1, tap_step = 1;
  int64_t weight_pitch = 4;
  bool contiguous = false;
  int64_t step = 1;
  int64_t row_blocks = 1, parts = 1;
  int64_t copy_lanes = 32;
  int64_t shared_bytes = 0;
  double ms = 0;  // as strided_staged_ms says
  bool operator==(const StridedStagedConfig&) const = default;

  int64_t threads() const { return 32 * warps_p * warps_r * warps_s; }
  int64_t rows() const { return warps_r * tile.rows; }                 // of a block
  int64_t positions() const { return warps_p * 32 * tile.positions; }  // of a block
  int64_t blocks(const core::Problem& p) const { return p.n * p.groups * row_blocks * parts; }
  int64_t weights_at() const { return (channels * slots * slot_pitch + 3) / 4 * 4; }
  int64_t ring_at(int64_t k) const { return (channels * k + 3) / 4 * 4; }
  int64_t stage_words(int64_t k) const { return weights_at() + channels * k * weight_pitch; }
  std::string text() const;
};

// Empty, or why no tile of the problem can be made.
std::string strided_staged_refusal(const core::Problem& p, const core::DeviceInfo& device);
// The one that is expected to be fastest, of a problem that is not refused. one_part: sums in one part only,
// in the order of the family's other ways, so with their bits.
StridedStagedConfig plan_strided_staged(const core::Problem& p, const core::DeviceInfo& device,
                                        bool one_part = false);
// That of one tile and these warps; shared_bytes is 0 if a stage does not fit.
StridedStagedConfig strided_staged_config(const core::Problem& p, const core::DeviceInfo& device,
                                          const StridedTile& tile, int64_t warps_p, int64_t warps_r,
                                          int64_t warps_s);
// What takes time: of the busiest SM, in instructions of warps; what a block waits for; microseconds of
// memory.
struct StridedWork {
  double products, loads, dy, weights, blocks;
  double chain_terms, chain_products, chain_chunks, chain_sums;
  double memory;
};
StridedWork strided_staged_work(const core::Problem& p, const StridedStagedConfig& config,
                                const core::DeviceInfo& device);
double strided_staged_ms(const core::Problem& p, const StridedStagedConfig& config,
                         const core::DeviceInfo& device);

std::unique_ptr<const plan::Kernel> strided_staged_kernel(const core::Problem& problem,
                                                          const core::DeviceInfo& device,
                                                          const StridedStagedConfig& config);
Holder holder_of(const StridedStagedConfig& config, const core::Problem& problem, int64_t element);

}  // namespace simt
}  // namespace tconv::cuda
