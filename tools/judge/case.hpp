// A problem with its operands in a target's memory and its float64 result: what kernels are judged on.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "judge/fill.hpp"
#include "judge/guarded.hpp"
#include "judge/target.hpp"
#include "judge/truth.hpp"

namespace tconv::judge {

struct JudgeOptions {
  uint64_t seed = 1;
  std::vector<Fill> fills;    // empty: integers and one other kind, drawn by the seed
  bool aligned = false;       // operands begin on 256 bytes, as allocators hand them out: for measurements
  double all_products = 3e8;  // with more products, sampled elements are judged
  int64_t all_elements = 30'000'000;  // likewise with more elements in an operand or in the output
};

struct Case {
  static core::Result<std::unique_ptr<Case>> make(const core::Problem& problem, Fill fill, Target& target,
                                                  const JudgeOptions& options);
  // Without the float64 result: for measurements.
  static core::Result<std::unique_ptr<Case>> operands_only(const core::Problem& problem, Fill fill,
                                                           Target& target, const JudgeOptions& options);
  plan::Operands host_operands();
  plan::Operands device_operands();

  core::Problem problem;
  Fill fill;
  Target& target;
  JudgeOptions options;
  std::optional<Guarded> operands[4] = {};  // x, weight, bias, grad_output: those that the operation reads
  uint64_t checksums[4] = {};
  Truth truth = {};
  bool sampled = false;

 private:
  Case(const core::Problem& p, Fill f, Target& t, const JudgeOptions& o)
      : problem(p), fill(f), target(t), options(o) {}
  core::Status fill_operands();
  void find_truth();
};

extern const char* const kOperandNames[4];

// The most bytes that judging takes, without the kernels' own buffers.
std::size_t memory_needed(const core::Problem& problem, const JudgeOptions& options);

// Outputs larger than this are compared between runs by their checksum.
inline constexpr std::size_t kKeptBits = std::size_t{256} << 20;

}  // namespace tconv::judge
