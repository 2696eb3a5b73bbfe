// cpu.outer: the gradient of the weight as a matrix product with vectors along (co, k), which are contiguous
// in dw. Every dtype.
//
//   x (N, Cin, L)   dy (N, Cout, Lout)   dw (Cin, Cout/groups, K)
//   dw[ci, co, k] = sum over n, i of x[n, ci, i] * dy[n, co, stride*i - padding + k*dilation]
//
//   for each task: a slab of depth (n, i), a group, a range of (co, k), a range of ci         threads
//     for each chunk of at most 256 (n, i), or 512 if that is all:
//       Y[tile of 48 (co, k)][n, i][48] = dy where tap k of position i meets it, else 0
//       for each 4 row blocks of 8 ci:  X[32][n, i]
//         for each 3 vectors of a tile, for each part of 128 (n, i), for each row block
//           C[8][3 vectors] += sum over (n, i) of X * Y
//         a single chunk: dw = C, rounded; else totals += C, in float64
//     the last chunk of the only slab: dw = totals + C, rounded; several slabs are added in order afterwards
//
// cpu.weight has its vectors along (n, i) instead: it copies nothing K times, but adds each element across
// lanes. Here Y costs an instruction or two per element, which all rows of a task share: this pays from a few
// dozen ci on. A part of a tile stays in L1 while the row blocks pass by: 8 x 3 accumulators take 11 loads
// for 24 multiply-adds.
//
// Where many positions have a tap that misses dy, or taps lie apart, a channel's rows are copied first with
// zeros around them ("padded row"): then vectors take several taps, or squares of four taps and four
// positions, at every position alike.
//
// An element of a chunk is one chain of fused multiply-adds in the order of (n, i). Chunks, slabs and their
// order depend on the problem alone. So the bits depend on neither threads nor tiles, and the error is that
// of a short sum however long the depth is.
//
// A zero of Y that stands for no product would turn an infinite x into NaN: row blocks with such an x are
// summed by scalar loops over the products that exist.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::outer {

inline constexpr int64_t kRows = 8;    // of a row block
inline constexpr int64_t kTile = 48;   // columns of a tile: three vectors of 16
inline constexpr int64_t kSlack = 16;  // a vector's overhang
inline constexpr int64_t kBlocks = 4;  // row blocks that share a part of a tile in L1
inline constexpr int64_t kPart = 128;  // of a chunk: 24 KiB of Y and 16 KiB of X

inline constexpr int64_t kMostDepth = 512;  // of a chunk

struct Config {
  int64_t chunk = 0;       // of depth
  int64_t padded_row = 0;  // elements of a channel of dy in a chunk with zeros around it; 0: read in place
  int64_t chunks_per_slab = 1, slabs = 1;
  int64_t panel_columns = 0, task_rows = 0;  // multiples of kTile and kRows
  bool operator==(const Config&) const = default;
};

struct Job {
  core::Problem problem;
  int64_t lout = 0, cin = 0, cout = 0;  // channels of a group
  int64_t depth = 0;                    // positions of the batch
  int64_t columns = 0;                  // (co, k) of a group
  Config config;

  bool single() const { return depth <= config.chunk; }  // no totals
  int64_t x_line() const { return config.chunk + kSlack; }
  std::size_t panel_elements() const;    // accumulators, of a task: Y, X and C
  std::size_t total_elements() const;    // float64, of a task
  std::size_t partial_elements() const;  // float64, of all slabs; 0 if there is one
};

struct Task {
  int64_t slab, group, column_begin, column_end, row_begin, row_end;
};

Job make_job(const core::Problem& problem, int threads);
int64_t task_count(const Job& job);
Task task_at(const Job& job, int64_t index);
std::string text(const Job& job);

// partials: of all slabs, or null if there is one. panel and totals are scratch.
void compute(const Job& job, const Task& task, const plan::Operands& operands, void* panel, double* totals,
             double* partials);

extern const plan::KernelEntry kEntry;  // "cpu.outer"

}  // namespace tconv::cpu::outer
