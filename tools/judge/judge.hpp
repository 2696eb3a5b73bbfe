// The judge: does a kernel compute a problem right on a target?
//
// For each kind of data (fill.hpp): margins around every buffer and poison in what the kernel writes; run 0
// with raw weights, element by element against float64 (truth.hpp, bound.hpp; integers: exactly the rounded
// exact sum); run 1 with packed weights and another split into tasks: the same bits; no margin and no operand
// changed. One wrong element is enough.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "judge/case.hpp"
#include "judge/trial.hpp"

namespace tconv::judge {

struct Verdict {
  bool right = true;
  std::string kernel;   // that ran; empty where none did
  std::string failure;  // one line, empty where right
  bool sampled = false;
  std::vector<std::string> where = {};  // who made the first wrong elements, where the kernel says
  std::optional<Fill> fill = {};        // the data that failed, or the last; nothing where none were made
};

Verdict judge(Case& problem_case, const Subject& subject);

// All kinds of data on the planner's choice (""), on a kernel by its name, or on every kernel that supports
// the problem ("all"). One verdict a kernel.
std::vector<Verdict> judge(const core::Problem& problem, const std::string& kernel, Target& target,
                           const Options& options);

// The kinds of data that options ask for.
std::vector<Fill> fills_of(const Options& options);

}  // namespace tconv::judge
