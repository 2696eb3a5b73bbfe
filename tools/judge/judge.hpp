// The judge: does a kernel compute a problem correctly on a target?
//
// For each kind of data (fill.hpp): every buffer has margins, and buffers that the kernel writes are
// poisoned. Run 0 has raw weights and is compared with float64, element by element (truth.hpp, bound.hpp;
// integers must equal the rounded exact sum). Run 1 has packed weights and another split into tasks, and must
// give the same bits. No margin and no operand may change. One wrong element is a failure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "judge/case.hpp"
#include "judge/trial.hpp"

namespace tconv::judge {

struct Verdict {
  bool right = true;
  std::string kernel;   // the kernel that ran; empty if none did
  std::string failure;  // one line, empty if right
  bool sampled = false;
  std::vector<std::string> where = {};  // what computed the first wrong elements, if the kernel says so
  std::optional<Fill> fill = {};        // the data that failed, or the last; nothing if none were made
};

Verdict judge(Case& problem_case, const Subject& subject);

// Judges all kinds of data with the planner's choice (""), with a kernel by its name, or with every kernel
// that supports the problem ("all"). One verdict for each kernel.
std::vector<Verdict> judge(const core::Problem& problem, const std::string& kernel, Target& target,
                           const JudgeOptions& options);

// The kinds of data that the options select.
std::vector<Fill> fills_of(const JudgeOptions& options);

}  // namespace tconv::judge
