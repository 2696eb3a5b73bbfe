// Host side of narrow.cuh.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cuda/device/divisor.hpp"

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSimtNarrow;

namespace simt {

inline constexpr int kNarrowMaxWarps = 8;

struct NarrowParams {
  const void* x;
  const void* weight;
  const void* bias;  // or null
  void* y;
  void* partial;  // splits > 1: sums (splits, n*cout, lout); else null
  int64_t x_sample, x_channel, x_position;
  int64_t l, lout, padding;
  int64_t q_first;                                                  // Q of output 0
  int64_t q_tiles, co_blocks, residue_groups, groups, rows, tiles;  // rows: n*groups
  int64_t row_elements;                                             // n*cout*lout: the size of one partial
  int32_t cin_per_group, cout_per_group, k, stride, taps;
  int32_t splits, cin_per_split;
  int32_t q_warps, r_warps, slice_warps;  // of a block; r_warps*kR residues a group
  int32_t residues;                       // min(s, r_warps*kR)
  int32_t chunk;                          // input channels whose weights lie in shared memory
  Divisor by_residues, by_taps_residues;
  bool direct;  // one residue block is the whole stride: threads store what they hold
  // for narrow_ring.cuh only:
  bool keep;            // all tiles have the same weights, which stay in shared memory
  bool turned;          // the padding is half the stride, modulo the stride: see store_direct
  int32_t ring_offset;  // bytes of shared memory before the warps' rings
};

using NarrowFunction = void (*)(NarrowParams);

// A register tile: kCo output channels x kR residues x kP positions a thread.
struct NarrowTileShape {
  int co, r, p;
  bool operator==(const NarrowTileShape&) const = default;
};

// The pitch of a (channel, tap)'s weights in shared memory: four or more are read 16 bytes at a time.
constexpr int narrow_pitch(int columns) {
  return columns < 4 ? columns : (columns + 3) / 4 * 4;
}

// narrow_ring.cuh: blocks of 256 threads on an SM, by the sums of a thread (columns x positions) of 4 or 8
// bytes.
constexpr int ring_blocks_per_sm(int columns, int p, int bytes) {
  const int sums = columns * p * (bytes == 8 ? 2 : 1);
  return sums <= (p <= 4 ? 16 : 8) ? 3 : sums <= 64 ? 2 : 1;
}

// Rows of x in a warp's ring, and elements of a row: its positions and a halo of the taps.
inline constexpr int kRingMostTaps = 33;
constexpr int ring_depth(int p) {
  return p <= 4 ? 5 : 3;
}
constexpr int ring_row(int p) {
  return 32 * p + kRingMostTaps - 1;
}

// The compiled tiles, one source file for each storage type. A thread has at most 128 sums of 4 bytes.
struct NarrowCompiled {
  NarrowTileShape shape;
  bool ring;  // narrow_ring.cuh, else narrow.cuh
  NarrowFunction function;
};
std::span<const NarrowCompiled> narrow_f32();
std::span<const NarrowCompiled> narrow_f16();
std::span<const NarrowCompiled> narrow_bf16();
std::span<const NarrowCompiled> narrow_f64();

}  // namespace simt
}  // namespace tconv::cuda
