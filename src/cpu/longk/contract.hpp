// cpu.longk: strides so long that one position's residues fill vectors: inverse STFT, learned upsampling by
// hundreds. Raw weights and y are both contiguous along the residues, so nothing is interleaved.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)      dilation 1
//   o + padding = stride*q + r;  y[co, stride*q + r - padding] = bias[co] + sum over ci, j of
//                                x[ci, q - j] * w[ci, co, r + stride*j]
//
//   for each (n, group), for chunk of q whose x fits the workspace:
//     x rows, widened, zeros around: staged[ci][q]                                               (parallel)
//     for each task (co, panel of r, part of the chunk), tasks spread over threads:
//       tile[q][r] = bias[co]
//       for ci by depth: panel[ci][j][r] = w[ci, co, r + stride*j]
//                        tile[q][r] += sum over ci, j of panel[ci][j][r] * staged[ci][q - j]
//       y = tile, rounded, r contiguous
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "cpu/simd/rows.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::longk {

struct Config {
  int64_t chunk = 0;  // q staged at once
  int64_t part = 0;   // q of a task
  int64_t depth = 0;  // ci at a time
  bool operator==(const Config&) const = default;
  std::string text() const;
};

struct Job {
  core::Problem problem;
  Config config;
  int64_t lout = 0, q_begin = 0, q_end = 0;
  int64_t taps = 0;   // the most that a residue has
  int64_t pitch = 0;  // of a staged row

  std::size_t stage_bytes() const;    // shared
  std::size_t scratch_bytes() const;  // a thread's
};

// The q of one stage: count of them from q0, of sample n and a group.
struct Stage {
  int64_t n, group, q0, count;
};

int64_t panels(const Job& job);  // of one channel
void stage_row(const Job& job, const void* x, const Stage& stage, int64_t ci, void* staged);
// Task of panels * channels * parts, counted in that order. False where it met a weight that is not finite.
bool run_task(const Job& job, const plan::Operands& operands, const Stage& stage, const void* staged,
              int64_t task, void* scratch);

extern const plan::KernelEntry kEntry;

}  // namespace tconv::cpu::longk
