// What a tensor copy must know about a tensor in device memory.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "core/status.hpp"
#include "cuda/sm90/dense.hpp"

namespace tconv::cuda {

// Up to four dimensions, the first of neighbouring elements. Sizes and boxes in elements, steps in bytes from
// one index of dimensions 1 to 3 to the next: multiples of 16, as is the address.
struct TensorShape {
  const void* address;
  int element;  // bytes: 2, 4 or 8
  int64_t sizes[4], steps[3];
  int box[4];
  bool swizzled = false;  // 128 bytes, which the box's first size is then
  bool rounded = false;   // float32 to tf32, to nearest
};

// If the driver does not support this, the result is a status with a message. Nothing links the driver: the
// runtime provides the address of its function.
core::Status make_tensor_map(const TensorShape& shape, TensorMap& map);

// A map of x as a product reads it: rows (position, channel of a group, group, sample), of which a copy takes
// `width` positions of `channels` channels. steps: of a sample and of a channel, in elements. A dimension of
// one may have any step.
core::Status make_rows_map(const core::Problem& product, const void* x, const int64_t (&steps)[2], int width,
                           int channels, TensorMap& map);

}  // namespace tconv::cuda
