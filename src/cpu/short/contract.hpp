// cpu.short: few positions in a sample. Vectors run along (output channel, tap), which is contiguous in raw
// weights, so a single position is enough to fill them. If there are few columns, weights are read raw, once
// and in order.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)
//   columns: (n, i); rows: (co, k); a chunk of columns is one or more whole samples
//
//   for stage of chunks (their columns of x fit the workspace):
//     columns of x, widened, in blocks of at most 6 or 8: [block][ci][column]                    (parallel)
//     for each task (chunk, group, block of co), tasks spread over threads:
//       for ci by depth, for panel of rows: raw weights in place, or a packed copy for many columns
//         tile[column][co, k] += sum over ci of w[ci, co, k] * x[column, ci]
//       for n in the chunk, for co:
//         line[stride*q + r] = bias[co] + sum over j of tile[(n, q - j)][co, r + stride*j]     (dilation 1)
//         y[n, co, o] = line[o + padding], rounded
//
// A line's vectors run along r. A small stride fills little of them, and a line then takes longer than its
// products if these are short (32 -> 512 K3 L4: 11 cycles an output). Where this costs more than to turn the
// rows of packed panels to (k, co), they are turned, and vectors of that last step run along co: by_tap.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::short_l {

inline constexpr int64_t kPanel = 64;        // rows of the widest panel
inline constexpr int64_t kBuffer = 1 << 18;  // accumulators that the tile, or staged x, may take
inline constexpr int64_t kMostLanes = 16;    // accumulators of a vector

// The dilation of a single tap is none.
inline bool is_dilated(const core::Problem& problem) {
  return problem.dilation > 1 && problem.k > 1;
}

struct Config {
  int64_t samples = 0;       // of a chunk
  int64_t channels = 0;      // co of a task
  int64_t depth = 0;         // ci at a time
  int64_t stage = 0;         // chunks whose x is staged at once
  bool pack_panels = true;   // else weights of the accumulators' type are read in place
  bool by_tap = false;       // packed rows are (k, co)
  bool fetch_ahead = false;  // weights in place come from beyond L2
  bool operator==(const Config&) const = default;
  std::string text() const;
};

struct Job {
  core::Problem problem;
  Config config;
  int64_t lout = 0, full = 0;  // full: outputs without padding and output_padding
  int64_t row_pitch = 0;       // of the tile: a task's rows and a panel's overhang
  int64_t chunks = 0, channel_blocks = 0;

  int64_t columns() const { return config.samples * problem.l; }  // of a whole chunk
  int64_t line_elements() const;                                  // scratch for what goes to y at once
  std::size_t stage_bytes() const;                                // shared
  std::size_t scratch_bytes() const;                              // of a thread
};

Job job_of(const core::Problem& problem, int64_t threads, int vector_bytes);

// Stages column block `block` of chunk `chunk`, whose columns begin at `staged`.
int64_t column_blocks(const Job& job);
void stage_columns(const Job& job, const void* x, int64_t chunk, int64_t block, void* staged);
// task: an index into the groups * channel_blocks of one chunk.
void run_task(const Job& job, const plan::Operands& operands, int64_t chunk, const void* staged, int64_t task,
              void* scratch);

extern const plan::KernelEntry kEntry;  // "cpu.short"

}  // namespace tconv::cpu::short_l
