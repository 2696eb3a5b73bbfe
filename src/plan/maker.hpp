// A kernel that can tell which of its threads made an output, for whoever looks for a wrong one.
#pragma once

#include <cstdint>
#include <string>

namespace tconv::plan {

class NamesMakers {
 public:
  virtual ~NamesMakers() = default;
  // In words: block, tile, warpgroup, lane, register. index: of the output, as it lies in memory.
  virtual std::string maker_of(int64_t index) const = 0;
};

}  // namespace tconv::plan
