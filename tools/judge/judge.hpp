// The judge: does a kernel compute a problem right on a target?
//
// For each kind of data: margins around every buffer and poison in what the kernel writes; run 0 with raw
// weights, element by element against float64 (truth.hpp, bound.hpp; integers: exactly the rounded exact
// sum); run 1 with packed weights and another split into tasks: the same bits; no margin and no operand
// changed. One wrong element is enough.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "judge/fill.hpp"
#include "judge/target.hpp"
#include "judge/truth.hpp"
#include "plan/planner.hpp"

namespace tconv::judge {

struct Options {
  uint64_t seed = 1;
  std::vector<Fill> fills;            // empty: integers and one other kind, drawn by the seed
  double all_products = 3e8;          // more products than this: judged on sampled elements
  int64_t all_elements = 30'000'000;  // also for more elements than this in x or in the output
};

struct Verdict {
  bool right = true;
  std::string kernel;   // that ran; empty where none did
  std::string failure;  // one line, empty where right
  bool sampled = false;
};

// A problem with its operands in the target's memory and its float64 result: judges any number of kernels.
class Case {
 public:
  static core::Result<std::unique_ptr<Case>> make(const core::Problem& problem, Fill fill, Target& target,
                                                  const Options& options);
  ~Case();
  // kernel: a name to force; empty: the planner's choice.
  Verdict judge(const std::string& kernel);

 private:
  struct State;
  explicit Case(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// All kinds of data on one kernel (empty: the planner's choice), or on every kernel that supports the problem
// ("all"). One verdict a kernel.
std::vector<Verdict> judge(const core::Problem& problem, const std::string& kernel, Target& target,
                           const Options& options);

// Bytes that judging takes at most, kernels' own buffers left out.
std::size_t memory_needed(const core::Problem& problem, const Options& options);

}  // namespace tconv::judge
