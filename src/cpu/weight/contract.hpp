// cpu.weight: the gradient of the weight, every dtype.
//
//   x (N, Cin, L)   dy (N, Cout, Lout)   dw (Cin, Cout/groups, K)
//   dw[ci, co, k] = sum over n, i of x[n, ci, i] * dy[n, co, stride*i - padding + k*dilation]
//
// A matrix product with rows = ci, columns = (co, k) and depth = (n, i). Both operands are contiguous along
// the depth once dy is split by phase (cpu/strided/panel.hpp), so vectors run along it and neither is
// transposed.
//
//   for each task: a slab of depth, a group, a range of ci, a range of co, a block of taps     threads
//     for each chunk of the slab's depth
//       rows of x, widened, zeros between samples, or in place with copies of their ends
//       dy split by phase, or in place at stride 1 with few rows of x
//       for each tile of 4 ci x 6 (co, k)
//         24 vectors of sums over the chunk, sample by sample, without the gaps behind where these are wide
//         added across lanes, all at once, then to totals in float64
//     round the totals to dw; with several slabs, keep them and add the slabs in order afterwards
//
// A chunk's float32 sum has at most 2048 products, or 4096 where a group has one row of x, and a lane's as
// many divided by the lanes; chunks are added in float64. So the error is that of a short sum however long
// the depth is, and the order depends only on the problem and the vectors: chunks and slabs are chosen
// without regard to the number of threads.
//
// The tile of 4 x 6 takes 24 accumulators, 6 vectors of dy and one of x, out of 32 registers; with 16
// registers it is 2 x 6. Considered instead: vectors along (co, k) with x broadcast, which needs dy
// transposed to [i][co, k], K times its size.
//
// Zeros stand for "no product". Times an infinity they would make NaN, and a NaN or an infinity stays in
// every sum that it enters: a chunk's sum that is not finite is computed again by a scalar loop over the
// products that exist.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "cpu/strided/panel.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::weight {

inline constexpr int64_t kTileColumns = 6;

// Columns of a chunk: enough to pay for the sums across lanes, and more of them where several channels of dy
// still fit in L2. On a Zen 5 long chunks take 0.87 to 0.95 of the time at stride 1 (n16 ci16 co64 l800 k7
// 1.32 -> 1.15 ms), 0.96 to 2.1 at stride 2 (n256 ci8 co64 l48 k3 1.02 -> 2.11, n4 ci16 co16 l30000 k4 2.26
// -> 2.70), and 1.13 with 8 phases.
inline constexpr int64_t kChunk = 1024, kLongChunk = 2048, kLinesOfLongChunk = 1;

struct Config {
  int64_t chunk = 0;  // columns at once
  int64_t chunks_per_slab = 1, slabs = 1;
  int64_t ci_block = 1, co_block = 1;  // of a task
  bool operator==(const Config&) const = default;
};

struct Job {
  core::Problem problem;
  int64_t lout = 0, cin = 0, cout = 0;  // channels of a group
  strided::SplitPanel split;
  int64_t used = 0;  // columns of a sample that are multiplied, of split.period
  Config config;

  // Whether tiles pass over the gaps between samples.
  bool passes_gaps() const { return used < split.period; }
  int64_t x_line() const { return config.chunk + 16; }  // elements of a row of x in the panel
  std::size_t total_elements() const;                   // float64, of a task
  std::size_t panel_elements() const;                   // accumulators, of a task: dy, then x
  std::size_t partial_elements() const;                 // float64, of all slabs; 0 if there is one
};

struct Task {
  int64_t slab, group, ci_begin, ci_end, co_begin, co_end, tap_begin, tap_end;
};

Job make_job(const core::Problem& problem, int vector_bytes);
int64_t task_count(const Job& job);
Task task_at(const Job& job, int64_t index);
std::string text(const Job& job);

// Leaves the task's sums in totals, as [ci][co, tap]. panel is scratch.
void compute(const Job& job, const Task& task, const plan::Operands& operands, void* panel, double* totals);

extern const plan::KernelEntry kEntry;      // "cpu.weight"
extern const plan::KernelEntry kBiasEntry;  // "cpu.bias": db[co] = sum over n, o of dy[n, co, o]

}  // namespace tconv::cpu::weight
