// cpu.dots: the strided product where samples have few positions. Every dtype.
//
//   dy (N, Cout, Lout)   w (Cin, Cout/groups, K)   dx (N, Cin, L)
//   dx[n, ci, i] = bias[ci] + sum over co, k of dy[n, co, stride*i - padding + k*dilation] * w[ci, co, k]
//
// A row of raw weights is contiguous along the depth (co, k), so vectors run along it: a single position
// fills them, and no weight is packed. cpu.strided has its vectors along positions.
//
//   for each task: some columns (n, i) of whole samples, one group, a range of ci               threads
//     for each depth block of whole channels, about kDepth (co, k)
//       X[column][depth] = dy where tap k of the position meets it, else 0
//       for each 4 ci, for each 6 columns: 24 vectors of sums along the depth; added across lanes, then to C
//     C, rounded, to dx
//
// With at most 3 columns whose X fits in L2, the loops over blocks and ci change places: rows of weights are
// then read from end to end, which takes a third less time for a single column (Zen 3, weights of 64 MB).
// With 16 registers, tiles have 2 ci, or 4 with at most 3 columns.
//
// Bound: with at most six columns, reading the weights once; otherwise the multiply-adds, 24 for ten loads.
//
// Lanes and depth blocks are added in an order that depends on neither N nor threads. A zero of X that stands
// for no product turns an infinite weight into NaN: such an element is computed again from the products that
// exist.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::dots {

inline constexpr int64_t kDepth = 2048;     // of a block: four rows of weights stay in L1
inline constexpr int64_t kColumns = 48;     // of a task
inline constexpr int64_t kTileColumns = 6;  // that share the loads of a row
inline constexpr int64_t kPad = 16;         // elements of the longest vector

struct Config {
  int64_t samples = 1;   // of a task
  int64_t rows = 1;      // ci of a task
  int64_t co_block = 1;  // channels of a depth block
  int64_t staged = 1;    // depth blocks whose X is there at once: one, or all
  bool operator==(const Config&) const = default;
};

struct Job {
  core::Problem problem;
  int64_t lout = 0, cin = 0, cout = 0;  // channels of a group
  Config config;

  int64_t columns() const { return config.samples * problem.l; }
  int64_t x_pitch() const;               // elements from a column of X to the next
  std::size_t scratch_elements() const;  // accumulators, of a task: X and C
};

struct Task {
  int64_t group, row_begin, row_end, sample_begin, sample_end;
};

Job make_job(const core::Problem& problem, int threads);
int64_t task_count(const Job& job);
Task task_at(const Job& job, int64_t index);
std::string text(const Job& job);

void compute(const Job& job, const Task& task, const plan::Operands& operands, void* scratch);

extern const plan::KernelEntry kEntry;  // "cpu.dots"

}  // namespace tconv::cpu::dots
