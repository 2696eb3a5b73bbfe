// cuda.simt.plain: every operation of every problem, in the simplest way. This is the slow path, for problems
// whose counts the other kernels cannot hold and for gradients that they refuse.
//
// clang-format off
//   fwd   a thread an output: for k of its residue, ci:                          y  += x[n,ci,i] * w[ci,co',k]
//   gx    a thread an output: for co, k:                                         dx += dy[n,co,o] * w[ci,co',k], and the bias
//   gw    a block 4 ci x 4 co of one k: its threads share the positions (n, i):  dw += x[n,ci,i] * dy[n,co,o]
//   gb    a block a channel: its threads share the positions (n, o):             db += dy[n,co,o]
// clang-format on
//
// Sums are held in float64 over short runs of float32, so that long sums stay precise on every GPU. If there
// are few outputs, their positions are split over blocks, and a second pass adds the parts in order.
#pragma once

#include <cstdint>

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSimtPlain;

inline constexpr int kPlainThreads = 128;
inline constexpr int kPlainTile = 4;  // channels on either side of a gw block

struct PlainParams {
  const void* x;
  const void* weight;
  const void* bias;
  const void* grad_output;
  void* output;
  double* parts;  // null: no second pass
  int64_t n, cin, cout, l, lout, k, groups, cin_group, cout_group;
  int64_t stride, padding, dilation, gcd, tap_stride, inverse;  // of dilation/gcd modulo tap_stride
  int64_t x_step[3], y_step[3];
  int64_t elements;  // of the output
  int64_t tiles;     // of gw and gb, not counting splits
  int64_t splits;
  int64_t positions, split_positions;  // that gw and gb sum over, and of one split
};

struct PlainFunctions {
  void (*transposed)(PlainParams);
  void (*strided)(PlainParams);
  void (*weight)(PlainParams);
  void (*bias)(PlainParams);
};

PlainFunctions plain_f32();
PlainFunctions plain_f64();
PlainFunctions plain_f16();
PlainFunctions plain_bf16();

}  // namespace tconv::cuda
