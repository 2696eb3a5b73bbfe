// The measurement behind tconv bench.
//
// Calls with raw and with packed weights alternate, warm, on random data. Data larger than half of the cores'
// second-level caches rotate over several sets of buffers, so that no call finds its operands there; smaller
// data stay, as they do between the layers of a model. The copy of the floor rotates in the same way.
#pragma once

#include <string>
#include <vector>

#include "floor.hpp"
#include "judge/target.hpp"

namespace tconv::cli {

struct Timing {
  const char* weights;                      // "raw" or "packed"
  double median = 0, lower = 0, upper = 0;  // seconds of one call; quartiles
  int64_t calls = 0;
};

struct Measured {
  std::string kernel;
  std::vector<Timing> timings;
  Rates rates;
};

core::Result<Measured> measure(const core::Problem& problem, const std::string& kernel, judge::Target& target,
                               double seconds);

}  // namespace tconv::cli
