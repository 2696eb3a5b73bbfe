// cpu.depthwise: groups of so few channels that a group is not worth a matrix product. Bound by memory.
//
//   x (N, G*ci, L)   w (G*ci, co, K)   y (N, G*co, Lout)      ci, co: channels in and out per group
//
//   for each unit (n, group, tile of t), units spread over threads:
//     w[group] -> accumulators in scratch; x[n, group, tile and its halo] -> in place, or a padded copy
//     for co:
//       for t in the tile, `lanes` at a time:
//         acc[f] = bias[co]                                            f: residues, o = f + stride*t
//         for ci, for f, for j in taps(f):
//           acc[f] += w[ci, co, k0[f] + j*k_step] * x[ci, t + offset[f] - j*x_step]
//         y[co, stride*t ...] = acc interleaved in registers           strides 1 to 4
//       longer strides, dilation 1: for t, `lanes` residues at a time, contiguous in w and y
//       else: a tile of rows f in scratch, interleaved from there
//
// Short rows (flat.cpp says which) cost more around their products than in them: staging, partial stores and
// branches took 25 to 60 ns a row. They lie one after another in x and y, and vectors run across their ends:
//
//   for each unit (blocks of 16 groups, samples), units spread over threads:
//     w -> [block][j][e], bias -> [block][e]               e: outputs of a block, (group, co, o); j: products
//     for 4 samples, for block, for e, `lanes` at a time:
//       acc[4] = bias[e]
//       for j: acc[4] += w[j][e] * x[4][place[j][e]]       by the permutation of two neighbouring vectors of
//       x y[4][e] = acc[4]
//
// Only products that exist are computed, in the order of the other ways.
//
// If y takes half of the last cache or more, a unit's outputs go to a line in L1 and from there to memory,
// past the caches: an ordinary store reads a line before it writes it, and that is most of the traffic.
//
// Weights are read raw, and taps that meet x at no output are left out. x is read in place if it is
// contiguous and of the accumulator's type, except at its ends.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "cpu/common/residues.hpp"
#include "cpu/depthwise/flat.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::depthwise {

enum class Way { interleave, residues, rows_tile, flat };
constexpr int64_t kSlack = 16;  // a vector's overhang

struct Config {
  int64_t tile = 0;            // values of t per unit
  int64_t tiles = 0;           // per channel
  int64_t units_per_task = 0;  // consecutive units
  Way way = Way::interleave;
  bool stream = false;  // y goes through a line in scratch, past the caches
  bool operator==(const Config&) const = default;
  std::string text() const;
};

// Everything that the SIMD code reads.
struct Job {
  core::Problem problem;
  Config config;
  Residues residues;
  Flat flat;
  int64_t lout = 0, pitch = 0;  // pitch: accumulators per staged row of x
  int64_t units() const { return problem.n * problem.groups * config.tiles; }
  int64_t tasks() const;
  int64_t weights_per_group() const { return problem.cin_per_group() * problem.cout_per_group() * problem.k; }
  int64_t flat_raw_elements() const;  // raw weights and biases of a block, and what vectors load beyond
  int64_t flat_x_pitch() const;       // of staged samples, in accumulators
  int64_t line_elements() const;      // of y, which a unit makes before it stores them
  std::size_t scratch_bytes() const;  // of a thread
};

Job job_of(const core::Problem& problem, bool stream, int threads);

// Runs one task. Returns false if it met a weight that is not finite.
bool run_task(const Job& job, const plan::Operands& operands, int64_t task, void* scratch);

extern const plan::KernelEntry kEntry;

}  // namespace tconv::cpu::depthwise
