// How far the numbers of a problem may reach before the index arithmetic of tiles could exceed 63 bits, and
// which problems are better left to loops over single products, because tiles would multiply only zeros.
#pragma once

#include <string>

#include "core/problem.hpp"

namespace tconv::core {

// Kernels count positions in whole tiles. They therefore compute positions beyond either end of x and y, and
// add strides, halos and the overhang of vectors to them. Every kernel, except those that compute each output
// separately, refuses problems beyond these limits; it then needs no further check for products of a position
// or an element count with the sizes of a tile.
inline constexpr int64_t kFarthest = int64_t{1} << 40;  // positions: (l+1)*stride, k*dilation, padding
// Elements of x, its span, y and the weight; positions that tiles reach times the step from one to the next.
inline constexpr int64_t kMost = int64_t{1} << 46;

// For a valid problem: empty, or the clause that refuses it.
std::string beyond_tiles(const Problem& problem);

}  // namespace tconv::core
