// cpu.strided: strided products (Conv1d and input gradients) of every dtype.
//
//   dy (N, Cout, Lout)   w (Cin, Cout/groups, K)   dx (N, Cin, L)
//   dx[n, ci, i] = bias[ci] + sum over co, k of dy[n, co, stride*i - padding + k*dilation] * w[ci, co, k]
//
// With k*dilation - padding = stride*shift(k) + phase(k), tap k reads dy[co][stride*u + phase] at u = i +
// shift. Once the rows of dy are split by phase, every tap is a shifted load, and the sum is a matrix product
// with rows = ci, columns = (n, i), depth = (co, k).
//
//   for each task: a panel of columns x a range of row blocks, one group                       threads
//     for each depth block: tap block, then co block
//       split dy into the panel: [co][phase][columns + halo], zeros outside [0, Lout)
//       for each pass of row blocks (in L2), for each run of columns (in L1)
//         for each row block of 8 ci, for each tile of 3 vectors of columns
//           C[8][tile] += A[8 ci x depth block] * panel         dense's microkernel
//     round C, store rows of dx
//
// With one depth block of few products, C begins at the bias in registers and goes straight to dx.
//
// With one tap and no padding, the panel holds a strip of a task's columns, and all row blocks of a strip are
// done before the next one:
//
//   for each strip, for each row block, for each tile
//     dx[8][tile] = bias + A[8 ci x depth block] * panel     in registers
//
// The first row block fills the panel while it multiplies; each tile prefetches some lines of the next strip.
//
// Every output is one chain of fused multiply-adds that begins with its bias, in the order (tap block, co,
// tap). The order does not depend on threads, N or tile sizes.
//
// Raw weights are packed by the task that reads them, one pass at a time: a row's weights are contiguous
// along the depth, so packing is a transpose in registers. If many panels read them, all are packed first.
// For a single tile of columns, f32 and f64 weights are read in place, as eight streams.
//
// Layouts
//   A (packed weights)  a header, then [group][8-row block][tap block][co][tap][8]
//   panel               rows of dy split by phase (panel.hpp). Considered instead: rows as they are,
//                       gathered by the microkernel, which would read `stride` cache lines for one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "cpu/dense/contract.hpp"
#include "cpu/strided/panel.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::strided {

using dense::kColumnAlign;
using dense::kMaxTile;
using dense::kRows;

struct Config {
  int64_t panel_columns = 0;  // of a task
  int64_t strip = 0;          // of a tiled panel: columns of a task that the panel holds at a time
  int64_t run = 0;            // columns of a panel that stay in L1 while the row blocks of a pass go by
  int64_t co_block = 1;
  int64_t blocks = 0;  // of 8 rows, of a group
  int64_t blocks_per_task = 1;
  int64_t pass_blocks = 1;  // whose weights stay in L2
  bool operator==(const Config&) const = default;
};

struct Job {
  core::Problem problem;
  int64_t lout = 0, cin = 0, cout = 0;  // channels of a group
  SplitPanel split;
  Config config;
  bool one_depth_block() const { return config.co_block >= cout && split.tap_block >= problem.k; }
  int64_t sums_line() const;  // elements from one row of sums to the next
  std::size_t panel_elements() const;
  std::size_t sum_elements() const;
  std::size_t row_elements() const;  // of a row block's weights in a depth block
  std::size_t scratch_elements() const {
    return panel_elements() + sum_elements() + static_cast<std::size_t>(config.pass_blocks) * row_elements();
  }
};

// In front of the packed weights.
struct alignas(256) PackedHeader {
  int32_t special = 0;  // 1: a weight is infinite or NaN; times a zero outside dy it gives a NaN
};

// Either packed, past the header, or raw.
struct Weights {
  const void* packed = nullptr;
  const void* raw = nullptr;
  std::atomic<bool>* special = nullptr;  // of raw ones: set if zeros outside dy may have made a NaN
};

struct Task {
  int64_t group, block_begin, block_end, column_begin, column_end;
};

Job make_job(const core::Problem& problem, int threads, int vector_bytes);
int64_t task_count(const Job& job);
Task task_at(const Job& job, int64_t index);
int64_t packed_elements(const Job& job);
std::string text(const Job& job);

// Positions [begin, end) of a sample: their taps all lie inside dy.
struct Inside {
  int64_t begin, end;
};
Inside inside(const Job& job);

// scratch: the thread's own, scratch_elements() accumulators.
void compute(const Job& job, const Task& task, const plan::Operands& operands, const Weights& weights,
             void* scratch);
// Packs row block `index`, numbered across groups; returns whether a weight is infinite or NaN.
bool pack_block(const Job& job, int64_t index, const void* weight, void* packed);
// Recomputes the outputs whose taps reach beyond dy, without products that do not exist.
void repair_ends(const Job& job, const plan::Operands& operands, const Weights& weights,
                 const core::Executor& executor);

// Where the bias is -0.0, stores it in the outputs that have no product.
void store_bias_alone(const core::Problem& problem, const plan::Operands& operands,
                      const core::Executor& executor);

extern const plan::KernelEntry kEntry;  // "cpu.strided"

}  // namespace tconv::cpu::strided
