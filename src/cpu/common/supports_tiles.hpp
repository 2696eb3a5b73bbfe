// What the kernels of one operation refuse alike.
#pragma once

#include <string>
#include <utility>

#include "core/reach.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu {

// Whether the problem is the operation `wanted`, and tiles can count its numbers.
inline plan::Support supports_tiles(const core::Problem& p, core::Operation wanted) {
  if (std::string other = plan::other_operation(p, wanted); !other.empty()) {
    return plan::Support::no(std::move(other));
  }
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  return plan::Support::yes();
}

}  // namespace tconv::cpu
