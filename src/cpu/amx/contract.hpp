// cpu.amx: matrix products of bfloat16 in AMX tiles, for transposed convolutions (in cpu.dense's form) and
// strided products (in cpu.strided's form: Conv1d, input gradients). If forced on a machine without AMX, it
// runs on any SIMD target, slowly and with the same bits (tiles.hpp).
//
// Rows of the product are output rows (output channel, residue), columns are (sample, place), and the depth
// is (input channel, tap). An input channel is held as lines, split by phase if the product is strided, and
// every tap reads one line at a fixed shift:
//
//   out[n, co, stride*(q_first + v) + residue*dilation - padding] = bias[co] + sum over c, j of
//       in[n, c, split.stride*(v + shift(j)) + phase(j)] * w(co, residue, c, j)
//
//   transposed  in = x, one phase, shift(j) = q_first - (taps-1-j)*delta
//               a residue has `taps` taps; one with a tap less has the last ones in this order
//   strided     in = dy, out = dx, with a single residue; j = k
//
//   for each task: a panel of columns x a range of units, one group                    threads
//     for each depth block: as many steps of 32 channels as fit in half of L2
//       load the panel: channels in pairs; note the least magnitude
//       for each unit: some output channels with all their residues
//         for each group of columns: all of the panel, or 256 if there is one depth block
//           for each pair of 16 rows, for each pair of 16 columns
//             sums[2*16][2*16] += w * panel over steps, then taps        4 sums, 2 + 2 operands: 8 tiles
//           after the last block: bias, round, interleave residues, store                  emit-inl.hpp
//
// Bound: reading operands. A step of 2x2 multiplies for 64 cycles and reads 4 KiB. On a Sapphire Rapids core
// it takes 66 cycles from L1, and 110 if weights and panel stream from L2, as they do here. Blocks of weights
// that stay in L1 gain nothing: their sums then pass through memory more often. The taps reread the lines of
// a channel from L1.
//
// Every sum is added in the order (step of 32 channels, tap, even and odd channels). The order does not
// depend on threads, N, blocks or the machine.
//
// AMX treats subnormals as zeros. The packed weights and each panel record their least magnitude; if a
// product could be subnormal, the task continues with the other implementation of the same sums. Data whose
// exponents spread over more than 112 powers of two are rare.
//
// Layouts
//   packed weights  a header, then [group][unit][class][row pair][step][tap][row tile][16 rows][32 channels];
//                   rows and channels that do not exist are zeros
//   panel           [step][line][channel pair][columns + halo], two bf16 in an element. Considered instead:
//                   [column][channel] as the first operand, which makes every tap an aligned load but
//                   transposes x on the way in and the sums on the way out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "cpu/amx/tiles.hpp"
#include "cpu/dense/contract.hpp"
#include "cpu/strided/panel.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::amx {

inline constexpr int64_t kColumns = 2 * kTile;  // of a product
inline constexpr int64_t kRows = 2 * kTile;

// Residues with the same number of taps; sizes are those of a unit.
struct RowClass {
  int64_t first = 0, residues = 0, taps = 0;
  int64_t row_tiles = 0;
  int64_t row_begin = 0;      // its first row of sums
  int64_t weights_begin = 0;  // elements
  bool operator==(const RowClass&) const = default;
};

struct Config {
  int64_t channels = 1;       // output channels of a unit; it and steps fix the packed layout
  int64_t steps = 1;          // of 32 input channels
  int64_t block_steps = 1;    // of a depth block
  int64_t group_columns = 0;  // of a group of column tiles
  int64_t panel_columns = 0;
  int64_t units = 0;  // of a group of channels
  int64_t units_per_task = 1;
  bool operator==(const Config&) const = default;
};

// Where a raw weight of a unit goes; the same for every unit.
struct WeightPlace {
  int64_t at = 0;    // element of the unit in step 0
  int64_t step = 0;  // elements from one step to the next
};

struct Job {
  core::Problem problem;
  int64_t in_channels = 0, out_channels = 0;  // of a group
  dense::Geometry out;                        // the outputs' side, as cpu.dense's epilogue reads it
  strided::SplitPanel split;                  // the input's side
  RowClass classes[2];
  Config config;
  std::vector<int64_t> offsets;     // of each tap in a step of the panel
  std::vector<WeightPlace> places;  // of a unit's raw weights, [part][column] (pack.cpp)

  bool transposed() const { return problem.operation == core::Operation::transposed; }
  int64_t unit_rows() const { return kTile * (classes[0].row_tiles + classes[1].row_tiles); }
  int64_t unit_weights() const;  // elements
  int64_t packed_elements() const { return problem.groups * config.units * unit_weights(); }
  int64_t step_elements() const { return split.lines * kPairs * split.line; }  // of the panel
  bool one_block() const { return config.block_steps >= config.steps; }
  int64_t sums_line() const { return config.group_columns + kTile; }  // an odd number of cache lines
  // Whether two rows are paired first and split by phase afterwards (panel-inl.hpp).
  bool gathers() const;
  // Scratch of a thread, in floats: panel, a channel pair's lines, sums, a run of outputs.
  int64_t panel_elements() const;
  int64_t pair_elements() const;
  int64_t sum_elements() const;
  int64_t run_elements() const;
  int64_t scratch_elements() const {
    return panel_elements() + pair_elements() + sum_elements() + run_elements();
  }
};

// In front of the packed weights.
struct alignas(256) PackedHeader {
  int32_t special = 0;           // 1: a weight is infinite or NaN; times a zero outside x it gives a NaN
  int32_t least = kNoMagnitude;  // smallest magnitude other than zero
};

struct Task {
  int64_t group, unit_begin, unit_end, column_begin, column_end;
};

// Why cpu.amx cannot take a problem of this shape; empty if it can.
std::string refusal(const core::Problem& problem);
// Whether cpu.dense or cpu.strided would take longer, according to a model of both.
bool worth_it(const core::Problem& problem);

Job make_job(const core::Problem& problem, int threads);
int64_t task_count(const Job& job);
Task task_at(const Job& job, int64_t index);
std::string text(const Job& job);

// What one task reads and writes; weights point past the header.
struct Buffers {
  const void* in = nullptr;
  const uint16_t* weights = nullptr;
  int32_t least_weight = 0;
  const void* bias = nullptr;
  void* out = nullptr;
};
void compute(const Job& job, const Task& task, const Buffers& buffers, float* scratch);

// A task packs some units of one group and adds what it finds to the header.
int64_t pack_tasks(const Job& job, int threads);
void pack_task(const Job& job, int threads, int64_t index, const void* weight, void* packed);
// Recomputes the outputs whose taps reach beyond the input, without products that do not exist.
void repair_ends(const Job& job, const Buffers& buffers, const core::Executor& executor);
// Where the bias is -0.0, stores it in the outputs that have no product.
void store_bias_alone(const Job& job, const Buffers& buffers, const core::Executor& executor);

extern const plan::KernelEntry kEntry;  // "cpu.amx"

}  // namespace tconv::cpu::amx
