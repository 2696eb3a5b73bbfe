// The polyphase form as formulas, for kernels whose columns are (cout, phase). With g = gcd(stride,
// dilation), step = dilation/g and tap_stride = stride/g, every product of the operation is one of
//
//   for phase a in [0, count), tap j in [0, taps), position u:
//     o = stride*u + a*dilation - padding        the output
//     i = u - j*step                             the input, zero outside [0, L)
//     k = a + j*tap_stride                       the weight, zero where k >= K
//
// so all phases read the same inputs, and a phase is a column of a matrix product. Nothing is computed twice,
// and zeros are multiplied only where tap_stride does not divide K.
#pragma once

#include <cstdint>

namespace tconv::cuda {

struct Phases {
  int64_t stride, dilation, padding;
  int64_t count;       // phases that have taps: min(K, stride/g)
  int64_t taps;        // of the longest phase
  int64_t step;        // of inputs from one tap to the next
  int64_t tap_stride;  // of k from one tap to the next
  int64_t first;       // the lowest u, negative where dilated phases reach back
  int64_t positions;   // u in [first, first + positions)
  // True: outputs stride*u - padding + slot for slot in [0, stride) belong to position u, slot a to phase a,
  // and slots from count on are bias alone. False: phases lie skewed, and outputs without taps are no one's.
  bool interleaved;
  bool gaps;  // not interleaved, and there are outputs without taps
};

}  // namespace tconv::cuda
