// The measurement behind tconv bench.
//
// What is compared on one problem (raw and packed weights, or several kernels) takes turns, warm, on random
// data. Data larger than half of the cores' second-level caches rotate over several sets of buffers,
// so that no call finds its operands there; smaller data stay, as they do between the layers of a model. The
// copy of the floor rotates in the same way.
#pragma once

#include <string>
#include <vector>

#include "floor.hpp"
#include "judge/target.hpp"

namespace tconv::cli {

struct Timing {
  const char* weights = "";                 // "raw" or "packed"
  double median = 0, lower = 0, upper = 0;  // seconds of one call; quartiles
  int64_t calls = 0;
  double spread() const { return median > 0 ? (upper - lower) / median : 0; }
};

struct Measured {
  std::string kernel;
  std::vector<Timing> timings;
  Rates rates;
};

// The planner's choice, or the kernel of that name, with raw and with packed weights.
core::Result<Measured> measure(const core::Problem& problem, const std::string& kernel, judge::Target& target,
                               double seconds);

// One kernel among others, with its weights packed beforehand if it packs them.
struct Contender {
  std::string kernel;
  double predicted_ms = 0;  // 0: no cost model
  Timing timing;
  std::string failed;  // why it was not measured, or empty
};

struct Contest {
  std::vector<Contender> contenders;  // the planner's choice first; without rivals, only that
  Rates rates;
};

// The planner's choice and, with rivals, every other kernel that takes the problem when forced. A rival that
// is more than four times slower than the fastest in the first rounds is not timed again.
core::Result<Contest> compete(const core::Problem& problem, bool rivals, judge::Target& target,
                              double seconds);

}  // namespace tconv::cli
