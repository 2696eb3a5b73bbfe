// cpu.narrow: so few rows (output channel, residue) or input channels that reading x or writing y takes
// longer than the products.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)
//   o + padding = stride*q + r; row = (co, r); the taps of all rows of a block read x at the same places:
//
// clang-format off
//   packed w: a header, then accumulators [group][block][ci][j][row of the block], then room for raw weights
//   for each unit (n, group, tile of q), units spread over threads:
//     for each part of the tile (its rows fit L1), for ci by depth:
//       x: in place, or a padded copy at the ends, for 16-bit storage, strided positions and many channels
//       for block (at most 8 rows):
//         for q in the part, V vectors at a time:              x of the next vectors is prefetched
//           acc[row][v] = bias, or rows
//           for ci, for j < taps:  acc[row][v] += w[ci][j][row] * x[ci, q + offset - j*x_step + v*lanes]
//           rows[row][q ..] = acc
//       y[co, stride*q + r - padding] = rows, interleaved and rounded
//
// With one or two rows, each multiply-add would load x anew, mostly across two cache lines. Then every tap is
// a row ("by taps"), and its sums are shifted once for all channels:
//         sums[co, k][i ..] = sum over ci of w[ci][co, k] * x[ci, i]
//         rows[row][q ..] = bias + sum over j of sums[co, k of (row, j)][q + offset - j*x_step]
// If the stride is 1 and y has the accumulators' type, a row's whole vectors are stored in y directly. Stores past
// the caches gain nothing here with one thread, and take half as long again with two: they go to 64 rows of 384
// bytes in turn.
// clang-format on
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "cpu/common/residues.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::narrow {

constexpr int kBlockRows = 8;
constexpr int kRowSlack = 16;  // a vector's overhang past each row of a part

struct Config {
  int64_t tile = 0;   // q per unit
  int64_t part = 0;   // q whose rows stay in L1
  int64_t depth = 0;  // input channels at a time
  int64_t units_per_task = 0;
  bool in_place = true;  // x is read where it lies, if its layout allows that
  bool by_taps = false;  // taps are rows
  bool operator==(const Config&) const = default;
  std::string text() const;
};

struct Block {
  int64_t offset = 0, taps = 0;
  int64_t weights = 0;        // where its weights begin within a group's
  std::vector<int64_t> rows;  // co*stride + r; by taps co*K + k
};

// Of the rows of residue r: where their first tap reads x, relative to q, and how many taps they have.
struct RowTaps {
  int64_t offset = 0, count = 0;
};

// In front of the packed weights. If one of them is not finite, the raw weights follow for the repair.
struct alignas(64) PackedHeader {
  int64_t special;
};

struct Job {
  core::Problem problem;
  Config config;
  Residues ends;  // for the repair
  std::vector<Block> blocks;
  std::vector<int64_t> first_tap;  // lowest k of residue r
  std::vector<RowTaps> row_taps;   // of residue r
  int64_t x_step = 1, k_step = 1;
  int64_t lowest = 0, highest = 0;  // of x position minus q
  int64_t lout = 0, q_begin = 0, q_end = 0, tiles = 0, pitch = 0;

  int64_t row_count() const { return problem.cout_per_group() * problem.stride; }
  int64_t row_pitch() const { return config.part + kRowSlack; }
  // By taps: positions of x that a part's outputs read.
  int64_t sums_pitch() const { return config.part + highest - lowest + 2 * kRowSlack; }
  int64_t units() const { return problem.n * problem.groups * tiles; }
  int64_t tasks() const { return (units() + config.units_per_task - 1) / config.units_per_task; }
  std::size_t table_bytes() const;
  std::size_t weight_bytes() const;   // reordered and widened
  std::size_t scratch_bytes() const;  // of a thread
};

Job job_of(const core::Problem& problem);

// Reorders and widens the weights; returns false if one is not finite.
bool reorder_weights(const Job& job, const void* weight, void* reordered);
void run_task(const Job& job, const plan::Operands& operands, const PackedHeader& header, int64_t task,
              void* scratch);

extern const plan::KernelEntry kEntry;

}  // namespace tconv::cpu::narrow
