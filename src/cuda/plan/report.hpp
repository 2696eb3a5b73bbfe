// Words for plans: an output's place in the polyphase form, and the stages that several kernels share.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "cuda/device/phases.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// An element of y, and the phase and position that it belongs to.
struct OutputPlace {
  int64_t n, cout, o;
  int64_t group, inner;  // cout is number `inner` in its group
  int64_t phase, u;      // phase -1: no tap reaches the output

  bool has_phase() const { return phase >= 0; }
};
OutputPlace output_place(const core::Problem& problem, const Phases& phases, int64_t element);

// "n 0, cout 5, o 1234: phase 1, position 617"
std::string text(const OutputPlace& place);

// An element of the output of any operation:
// "n 0, cout 5, o 1234", "n 0, ci 5, i 17", "ci 3, co 5, k 2", "co 7".
std::string element_text(const core::Problem& problem, int64_t element);

// "bias, scale ..., one rounding to f16": what the epilogue does.
plan::StageLine epilogue_line(const core::Problem& problem);

// ", split 4 ways and summed in order", or nothing.
std::string split_words(int64_t splits);

// How outputs are stored if the reduction is split this many ways; `alone` for one split.
plan::StageLine writer_line(const std::string& alone, int64_t splits);

// The same where partial sums lie as tiles; direct: there are no partial sums.
plan::StageLine tiles_writer_line(const std::string& alone, bool direct, int64_t splits);

// Who holds the sum of an output before it is stored; for a split reduction, in the first split.
struct Holder {
  int64_t block;
  int thread;       // of the block
  std::string sum;  // the register, as the kernel names it
  auto operator<=>(const Holder&) const = default;
};

// "block 12, warp 2, lane 13, sums[1][3][2]"
std::string text(const Holder& holder);

// Who sums in a block for each split: "block 3", "blocks 3, 15, ... of 4 splits".
std::string blocks_text(int64_t block, int64_t apart, int64_t splits);

// "then block 3, thread 17, values[0] of the ordered sum of 4 splits"
std::string text(const SumPosition& position, int splits);

}  // namespace tconv::cuda
