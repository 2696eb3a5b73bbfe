// cpu.strided_depthwise: strided products (Conv1d, input gradients) in groups of so few channels that a group
// is not worth a matrix product. Bound by memory.
//
//   dy (N, G*co, Lout)   w (G*ci, co, K)   dx (N, G*ci, L)       ci, co: channels of a group
//
//   for each unit (n, group, tile of i), units spread over threads:
//     w[group] -> accumulators in scratch
//     for co: dy[n, co] of the tile -> lines by phase, zeros outside [0, Lout); at stride 1 in place
//     for ci, for i in the tile, 8 vectors at a time:
//       acc = bias[ci]
//       for co, k:  acc += w[ci, co, k] * line[co][phase(k)][i + shift(k)]
//       dx[n, ci, i] = acc
//
// Short rows are not worth lines and tiles of their own. For them 16 groups lie side by side in vectors, and
// only products that exist are computed:
//
//   for each unit (16 groups, n), units spread over threads:
//     w -> [ci][co][k][16], once for consecutive samples;  dy[n] -> [co][o][16]
//     for ci, i:
//       acc[16] = bias[ci]
//       for co, k:  acc += w[ci][co][k] * dy[co][stride*i - padding + k*dilation]
//     dx[n] <- [ci][i][16]
//
// k*dilation - padding = stride*shift(k) + phase(k), as in cpu.strided, whose repairs this family shares. It
// saves what a matrix product needs around it: a panel, sums and their stores for each group. Weights are
// read raw.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "cpu/strided/panel.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::strided_depthwise {

constexpr int64_t kSlack = 16;    // a vector's overhang
constexpr int64_t kAbreast = 16;  // groups side by side

struct Config {
  bool abreast = false;        // groups side by side, no tiles
  int64_t tile = 0;            // positions i of a unit
  int64_t tiles = 0;           // of a channel
  int64_t units_per_task = 0;  // consecutive units
  std::string text() const;
};

// Everything that the SIMD code reads.
struct Job {
  core::Problem problem;
  Config config;
  strided::SplitPanel split;  // of one sample: lines of a tile of a channel
  int64_t group_blocks() const { return (problem.groups + kAbreast - 1) / kAbreast; }
  int64_t units() const {
    return problem.n * (config.abreast ? group_blocks() : problem.groups * config.tiles);
  }
  int64_t tasks() const { return (units() + config.units_per_task - 1) / config.units_per_task; }
  int64_t group_weights() const { return problem.cin_per_group() * problem.cout_per_group() * problem.k; }
  int64_t line_elements() const { return problem.cout_per_group() * split.channel() + kSlack; }
  std::size_t scratch_bytes() const;  // a thread's: lines of a group, and its weights
};

Job job_of(const core::Problem& problem, int threads);

// Runs one task. Returns false if a weight that is not finite may have met a zero outside dy.
bool run_task(const Job& job, const plan::Operands& operands, int64_t task, void* scratch);

extern const plan::KernelEntry kEntry;

}  // namespace tconv::cpu::strided_depthwise
