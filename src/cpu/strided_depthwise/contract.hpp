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
// k*dilation - padding = stride*shift(k) + phase(k), as in cpu.strided, whose repairs this family shares.
// What it saves is what a matrix product needs around it: a panel, sums and their stores for each group.
// Weights are read raw.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "cpu/strided/panel.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::strided_depthwise {

constexpr int64_t kSlack = 16;  // a vector's overhang

struct Config {
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
  int64_t units() const { return problem.n * problem.groups * config.tiles; }
  int64_t tasks() const { return (units() + config.units_per_task - 1) / config.units_per_task; }
  int64_t group_weights() const { return problem.cin_per_group() * problem.cout_per_group() * problem.k; }
  int64_t line_elements() const { return problem.cout_per_group() * split.channel() + kSlack; }
  std::size_t scratch_bytes() const;  // a thread's: lines of a group, and its weights
};

Job job_of(const core::Problem& problem, int threads);

// Runs one task. Returns false if it met a weight that is not finite.
bool run_task(const Job& job, const plan::Operands& operands, int64_t task, void* scratch);

extern const plan::KernelEntry kEntry;

}  // namespace tconv::cpu::strided_depthwise
