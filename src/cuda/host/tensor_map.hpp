// What a tensor copy must know about a tensor in device memory.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "core/status.hpp"
#include "cuda/sm90/dense.hpp"

namespace tconv::cuda {

// Four dimensions, or five if sizes[4] is above 0; elements along the first are neighbours. Sizes and boxes
// are in elements; steps, in bytes from one index of dimensions 1 to 4 to the next, are multiples of 16, and
// so is the address.
struct TensorShape {
  const void* address;
  int element;  // bytes: 2, 4 or 8
  int64_t sizes[5], steps[4];
  int box[5];
  bool swizzled = false;  // in units of 128 bytes, which the first size of the box must then be
  bool rounded = false;   // float32 is rounded to tf32, to nearest
};

// If the driver does not support this, the result is a status with a message. Nothing links the driver: the
// runtime provides the address of its function.
core::Status make_tensor_map(const TensorShape& shape, TensorMap& map);

// For a tensor that begins anywhere: moves its address back to 16 bytes and makes its first dimension longer
// by as many elements. Returns how many.
int64_t begin_on_boundary(TensorShape& shape);

// A map of x as a product reads it: (position, channel of a group, group, sample). A copy takes `width`
// positions of `channels` channels. steps: elements from one sample and from one channel to the next. A
// dimension of size one may have any step.
core::Status make_rows_map(const core::Problem& product, const void* x, const int64_t (&steps)[2], int width,
                           int channels, TensorMap& map);

}  // namespace tconv::cuda
