// cpu.outer: the gradient of the weight where few positions are summed. Every dtype.
//
//   x (N, Cin, L)   dy (N, Cout, Lout)   dw (Cin, Cout/groups, K)
//   dw[ci, co, k] = sum over n, i of x[n, ci, i] * dy[n, co, stride*i - padding + k*dilation]
//
// cpu.weight has its vectors along (n, i) and adds each one up across its lanes, which costs more than the
// products where there are few positions. Here vectors lie along (co, k), as dw does in memory:
//
//   for each task: a group, a range of (co, k), a range of row blocks                    threads
//     Y[n, i][co, k] = dy where tap k of position i meets it, else 0
//     for each row block of 8 ci:  X[n, i][8]
//       for each tile of 3 vectors of (co, k)
//         C[8][tile] = sum over (n, i) of X * Y                  dense's microkernel
//       round C to dw
//
// Y is K times dy, and made once for all rows of a task: worth it for many ci. Every output is one chain of
// fused multiply-adds in the order of (n, i), of at most kMostDepth terms, so that the bits depend on neither
// threads nor tiles.
//
// A zero of Y that stands for no product would make NaN of an infinite x: such row blocks are summed by
// scalar loops over the products that exist.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::outer {

inline constexpr int64_t kMostDepth = 512;

struct Job {
  core::Problem problem;
  int64_t lout = 0, cin = 0, cout = 0;  // channels of a group
  int64_t depth = 0;                    // positions of the batch
  int64_t columns = 0;                  // (co, k) of a group
  int64_t blocks = 0;                   // of 8 ci
  int64_t panel_columns = 0, blocks_per_task = 0;

  // From a line of Y to the next: an odd number of cache lines, which spread over the sets of L1.
  int64_t pitch() const { return (panel_columns / 16 | 1) * 16; }
  std::size_t scratch_elements() const;                 // accumulators, of a task: Y, X and C
};

struct Task {
  int64_t group, column_begin, column_end, block_begin, block_end;
};

Job make_job(const core::Problem& problem, int threads);
int64_t task_count(const Job& job);
Task task_at(const Job& job, int64_t index);
void compute(const Job& job, const Task& task, const plan::Operands& operands, void* scratch);

extern const plan::KernelEntry kEntry;  // "cpu.outer"

}  // namespace tconv::cpu::outer
