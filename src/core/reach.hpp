// How far the numbers of a problem may reach before the index arithmetic of tiles could leave 63 bits, and
// which problems are for loops over single products because tiles would multiply zeros alone.
#pragma once

#include <string>

#include "core/problem.hpp"

namespace tconv::core {

// Kernels count positions in whole tiles, so that they compute positions beyond either end of x and y, and
// add strides, halos and the overhang of vectors to them. Every kernel but the ones that take each output for
// itself refuses what lies beyond these limits, and needs no further check for products of a position or an
// element count with a tile's sizes.
inline constexpr int64_t kFarthest = int64_t{1} << 40;  // positions: (l+1)*stride, k*dilation, padding
inline constexpr int64_t kMost = int64_t{1} << 46;      // elements of x, its span, y and the weight

// Of a valid problem: empty, or the clause that refuses it.
std::string beyond_tiles(const Problem& problem);

}  // namespace tconv::core
