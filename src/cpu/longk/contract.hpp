// cpu.longk: strides so long that one position's residues fill vectors: inverse STFT, learned upsampling by
// hundreds. Raw weights and y are both contiguous along the residues, so nothing is interleaved.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)      dilation 1
//   o + padding = stride*q + r;  y[co, stride*q + r - padding] = bias[co] + sum over ci, j of
//                                x[ci, q - j] * w[ci, co, r + stride*j]
//
// clang-format off
//   blocks: at most 6 q of one sample
//   for each group, for stage of blocks whose x fits the workspace:
//     staged[ci by depth][block][ci][q from the block's first - (taps - 1) on], widened                (parallel)
//     for each task (co, panel of r, part of the stage), tasks spread over threads:
//       tile[q][r] = bias[co]
//       for ci by depth: panel[ci][j][r] = w[ci, co, r + stride*j], or raw weights where blocks are few
//         for block of the part:
//           tile[q][r] += sum over ci, j of panel[ci][j][r] * staged[..][block][ci][q - j]
//       y = tile, rounded, r contiguous
// clang-format on
//
// The weights of a panel stay in L1 while the blocks pass by, and x is read in order.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "cpu/common/residues.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::longk {

inline constexpr int64_t kColumns = 6;       // q of a block
inline constexpr int64_t kStaged = 3 << 18;  // accumulators of x, read in order: they need no cache

struct Config {
  int64_t stage = 0;  // blocks staged at once
  int64_t part = 0;   // blocks of a task
  int64_t depth = 0;  // ci at a time
  bool operator==(const Config&) const = default;
  std::string text() const;
};

struct Job {
  core::Problem problem;
  Config config;
  int64_t lout = 0, q_begin = 0, q_end = 0;
  int64_t taps = 0;               // the most that a residue has
  int64_t blocks_per_sample = 0;  // of q

  int64_t blocks() const { return problem.n * blocks_per_sample; }
  int64_t slabs() const { return (problem.cin_per_group() + config.depth - 1) / config.depth; }  // of depth
  int64_t block_elements() const;     // of x, in a slab
  std::size_t stage_bytes() const;    // shared
  std::size_t scratch_bytes() const;  // of a thread
};

Job job_of(const core::Problem& problem, int64_t threads);

// Blocks of a group that are staged together: `count` of them from `first` on.
struct StagedBlocks {
  int64_t group, first, count;
};

int64_t panels(const Job& job);  // of one channel
void stage_block(const Job& job, const void* x, const StagedBlocks& stage, int64_t block, void* staged);
// Tasks are numbered over panels, then channels, then parts. Returns false if zeros around x may have met a
// weight that is not finite.
bool run_task(const Job& job, const plan::Operands& operands, const StagedBlocks& stage, const void* staged,
              int64_t task, void* scratch);

extern const plan::KernelEntry kEntry;

}  // namespace tconv::cpu::longk
