// The fitted constants of the cost model of cuda.sm90.blocked: blocked_cost.cpp computes expected times with
// them, blocked_bound.cpp bounds of such times.
#pragma once

#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda::blocked_model {

// Cycles of an SM at kClock, fitted to H200 measurements by
//   tconv bench --device cuda --kernel cuda.sm90.blocked --model
struct Rates {
  double clock = 1.75e9;
  double tensor = 0.97;                   // the share of the tensor cores' peak that the sums of a tile reach
  double l2[2] = {44, 27};                // bytes a cycle, by blocks that share an SM
  double kept_bytes = 30e6, again = 1.5;  // of x that L2 keeps; how much longer the rest takes
  // Outputs a cycle: of 16 bits and of 32 by passes, over one sample or several. Fitted to 258 drawn
  // products, every configuration (H100).
  double passes[2] = {4.15, 3.0}, folded[2] = {4.0, 3.1};
  // By passes of 512 bytes (Sm90Storing) over one sample, by turns or not: fitted to 672 times of 310
  // products in three modes (H200), off by 15% in bf16 and ieee and by 10% in tf32.
  double long_passes[2] = {6.9, 5.0};
  // Line by line, where rows of y begin on 16 bytes or anywhere; how much longer that takes in tiles of 64
  // columns, and, of 16 bits and of 32, in tiles of 128 that share an SM. Fitted to 652 times of 163 drawn
  // products in three modes (H200): off by 12%.
  double lines = 6.7, shifted = 5.8, narrow = 1.6, shared[2] = {1.5, 1.45};
  // How much longer a block that turns takes if its SM has no room for a second one: 1.2 to 1.5 times on 9
  // products.
  double alone = 1.35;
  // Of one tap, whose products hide no turning: the whole, and turning alone. Fitted to 37 pointwise products
  // in 16 bits and tf32, 15 to 1100 us (H200): 11% off; without this, 0.53 to 1.0 of the time was expected.
  double one_tap = 1.12, one_tap_turning = 1.3;
  double start = 5000;  // of a block
  double launch_ms = 0.003;
  // Cycles of a warp that turns: a chunk; an item of it; to find where the pieces of a box go, or where one
  // of them goes if their phases differ; a box; a piece of it, of 16 bits and of 32. Instructions counted by
  // ncu, 6 to 7 cycles each.
  double turn_chunk = 700, turn_item = 600, turn_even = 80, turn_target = 60, turn_box = 33,
         turn_piece[2] = {23, 80};
  double box_copy = 900;  // of a thread, in rows shorter than a share
  // The share of the copy rate: with loads of 2, 4, 8 and 16 bytes if a unit has phases of channels; plain if
  // it has where it has none.
  double blocking[4] = {0.43, 0.6, 0.75, 0.75}, plain = 0.85;
};
inline constexpr Rates kRates;

// The whole time as a weighted sum of its parts: milliseconds to begin, the others relative; `rest` is of
// what is known as launch: blocks that begin, and partial sums. Fitted to times of drawn problems (tf32, ieee
// and bf16, strided and transposed, H200, packed weights, in a graph), 6,600 of 860 problems and, turned, 590
// of 170. Root mean square errors: 13% with a pass (9 to 13% in float16), 10% with slabs of one phase; turned
// 7 to 10% by lines, 17% by passes, 9 to 17% with phases. The configuration preferred takes 1.011 times as
// long as the fastest (108 transposed problems).
struct Weights {
  double start, tensor, load, l2, store, dram, blocking, rest;
  // How much longer loads take as the slabs of a chunk fill the ring: times the square of the share they
  // take.
  double crowded = 0;
  // Which share of the lesser of store and dram is counted twice: lines go to memory while others are stored,
  // if rows fill tiles of 256 columns. Without this, 21 times in 16 bits that outputs bind are expected to be
  // 1.09 times as long as they are; in float32 none.
  double beside = 0;
};
// Of 16 bits and of 32.
inline constexpr Weights kPass[2] = {{1.4e-3, 0.774, 0, 0.529, 1.0, 0.591, 0.64, 1.0, 0, 0.4},
                                     {1.2e-3, 0.758, 0, 0.495, 1.153, 0.405, 0.794, 1.0}},
                         kPhased[2] = {{0.3e-3, 0.605, 0, 0.712, 1.0, 0.424, 1.071, 1.123},
                                       {0, 0.705, 0, 0.572, 1.432, 0.195, 1.116, 1.1}};
// Turned: with rows of y stored by passes, and line by line. Those by passes are 1.18 times as large as
// fitted: expected times are 17% off there, and where several kernels are compared the one that is
// underestimated wins. As fitted, 16 of 71 choices against another kernel took more than 1.05 times as long,
// and all of them 0.936 of the time; with the factor 5 of 51, and 0.875. `rest` is at least 1, for few of
// those times have partial sums.
inline constexpr Weights kTurned[2][2] = {
    {{4.0e-3, 0.977, 0.68, 0.256, 0.953, 0.06, 0, 1.18},
     {4.0e-3, 0.854, 0.261, 0.85, 0.527, 0.907, 0, 1.062}},
    {{4.0e-3, 0.983, 0.347, 0, 0.597, 0.117, 0, 1}, {4.0e-3, 0.855, 0.309, 0, 0.871, 0.334, 0, 1}}};
// With phases of x: in tiles of fewer than 256 columns, and of 256, whose loads find a free slot less often.
inline constexpr Weights kTurnedPhases[2][2] = {
    {{4.0e-3, 0.84, 0.335, 0, 0.618, 0.037, 0, 1.339, 1}, {4.0e-3, 0.834, 0.283, 0, 0.6, 0.183, 0, 1.5, 2}},
    {{4.0e-3, 0.594, 0.473, 0.42, 0.719, 0.274, 0, 1.1, 2},
     {4.0e-3, 0.546, 0.574, 0.303, 1.046, 0, 0, 1.1, 2}}};
// float32 in float16, tf32 in one part and ieee in two; with slabs of one phase.
inline constexpr Weights kScaled[2] = {{1.3e-3, 0.838, 0, 0.547, 1.76, 0.143, 1.009, 1.3},
                                       {2.1e-3, 0.781, 0, 0.803, 2.276, 0.099, 0.91, 1.215}},
                         kScaledPhased[2] = {{0, 0.814, 0, 0.591, 1.813, 0.119, 1.267, 1.2},
                                             {0, 0.583, 0, 1.035, 2.305, 0.108, 1.134, 1.32}};

// Of a configuration; element: bytes of an operand. stride: of a product whose x is turned. lines: y is
// stored line by line.
inline const Weights& weights_of(const Sm90Config& config, Arithmetic mode, int element, int64_t stride,
                                 bool lines) {
  if (config.scaled) {
    const int parts = mode == Arithmetic::ieee ? 1 : 0;
    return config.phased ? kScaledPhased[parts] : kScaled[parts];
  }
  const int words = element / 4;
  if (config.phased) return kPhased[words];
  if (!config.turned) return kPass[words];
  return stride == 1 ? kTurned[lines][words] : kTurnedPhases[sm90_tile(config).n == 256][words];
}

}  // namespace tconv::cuda::blocked_model
