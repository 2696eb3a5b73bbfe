// Tasks of the families that multiply matrices: a group, a chunk of its units (or row blocks), and a panel of
// columns. Panels come first, so that neighbouring tasks share weights.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/polyphase.hpp"

namespace tconv::cpu {

struct TaskGrid {
  int64_t units, units_per_task;
  int64_t columns, panel_columns;

  int64_t panels() const { return core::ceil_div(columns, panel_columns); }
  int64_t chunks() const { return core::ceil_div(units, units_per_task); }
  int64_t count(int64_t groups) const { return groups * chunks() * panels(); }

  // Task: the group, then the first unit and the end of units, then those of columns.
  template <class Task>
  Task at(int64_t index) const {
    const int64_t column = index % panels() * panel_columns;
    const int64_t unit = index / panels() % chunks() * units_per_task;
    return {index / panels() / chunks(), unit, std::min(units, unit + units_per_task), column,
            std::min(columns, column + panel_columns)};
  }
};

}  // namespace tconv::cpu
