// The numbers of the polyphase form (core/polyphase.hpp) for kernels, and the positions that outputs have.
// All phases take `taps` taps: a weight beyond K is zero.
#pragma once

#include <cstdint>

namespace tconv::cuda {

struct Phases {
  int64_t stride, dilation, padding;
  int64_t count;       // phases that have taps: min(K, stride/g)
  int64_t taps;        // of the longest phase
  int64_t step;        // inputs from one tap to the next
  int64_t tap_stride;  // indices k from one tap to the next
  int64_t first;       // the lowest u; negative if dilated phases reach back
  int64_t positions;   // u in [first, first + positions)
  // True: position u has outputs stride*u - padding + slot for slot in [0, stride); slot a is of
  // phase a, slots from count on are bias alone. False: phases are skewed, outputs without taps have no u.
  bool interleaved;
  bool gaps;  // not interleaved, and there are outputs without taps
};

}  // namespace tconv::cuda
