// The arithmetic of a benchmark: a storage type and, for float32, its precision.
#pragma once

#include <string>
#include <vector>

#include "core/problem.hpp"

namespace tconv::cli {

struct Mode {
  core::DType dtype;
  core::Precision precision;
};

// "tf32", "ieee" (both float32), "f16", "bf16", "f64".
const std::vector<std::string>& mode_names();
std::vector<Mode> modes_of(const std::vector<std::string>& names);
core::Problem in_mode(core::Problem problem, const Mode& mode);

}  // namespace tconv::cli
