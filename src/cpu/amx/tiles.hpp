// A product of bf16 tiles, 16 rows x 32 channels x 16 columns, summed in float32: by AMX if the machine has
// it, otherwise by the SIMD target in use (simd.cpp). Both add in the order that the instruction defines:
//
//   for each step of 32 channels, for each tap                       tile products
//     even = odd = +0
//     for pair in 0 .. 15                          fused, though products of bf16 are exact anyway
//       even += w[row][2*pair] * x[2*pair][column], odd += w[row][2*pair + 1] * x[2*pair + 1][column]
//     sum += even + odd
//
// so their bits are the same, except that AMX reads subnormal operands as zeros and flushes subnormal sums.
// safe_in_tiles() says when neither can happen.
#pragma once

#include <cstdint>

namespace tconv::cpu::amx {

inline constexpr int64_t kTile = 16;                // rows, and columns, of a tile of sums
inline constexpr int64_t kStep = 32;                // channels that a tile product adds up
inline constexpr int64_t kPairs = kStep / 2;        // lines of the panel that it reads
inline constexpr int64_t kWeights = kTile * kStep;  // elements of a tile of weights

// sums (row_tiles*16 rows, column_tiles*16 columns) = (sums or 0) + weights * panel.
struct Product {
  const uint16_t* weights = nullptr;  // [step][tap][row tile][16 rows][32 channels]
  const uint32_t* panel = nullptr;    // [channel pair][column], the even channel in the low half
  int64_t line = 0, step = 0;         // elements from a channel pair, and from a step, to the next
  const int64_t* offsets = nullptr;   // of each tap in the panel, in elements
  int64_t steps = 0, taps = 0;
  int64_t row_tiles = 1, column_tiles = 1;  // at most 2 each
  float* sums = nullptr;
  int64_t sums_line = 0;
  bool add = false;
};

// Whether this process may use AMX: the CPU has it, the operating system saves its registers and has granted
// them. Linux is asked once.
bool available();

// Between begin_tiles() and end_tiles() this thread's tile registers are in use. Only where available().
void begin_tiles();
void end_tiles();
void multiply_in_tiles(const Product& product);
// Runs `rounds` times four products on registers alone, at the machine's peak rate; returns their
// multiply-adds.
double multiply_registers(int64_t rounds);

// The same on the SIMD target in use, with subnormals kept.
void multiply_in_vectors(const Product& product);

// Whether tasks use tiles: forcing a SIMD target without AVX-512 turns AMX off as well.
bool tiles_in_use();

// In place of a least nonzero magnitude (bits of bf16) if there is none.
inline constexpr int32_t kNoMagnitude = 0x10000;

// Products of values with exponents e and f are multiples of 2^(e + f - 14), and so are all their sums. If
// that is a normal float32, nothing is flushed.
inline bool safe_in_tiles(int32_t least_weight, int32_t least_x) {
  const int32_t w = least_weight >> 7, x = least_x >> 7;  // biased by 127; 0: subnormal
  return w > 0 && x > 0 && w + x - 2 * 127 - 14 >= -126;
}

}  // namespace tconv::cpu::amx
