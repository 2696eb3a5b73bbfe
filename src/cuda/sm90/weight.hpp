// cuda.sm90.weight: the weight gradient by wgmma. The loop nest, the blocks of (co, phase, tap) and the
// pieces of positions are those of cuda/sm80/weight.hpp; here blocks of (co, phase, tap) are the rows of
// wgmma, which come from registers, and ci are its columns, which it reads in shared memory:
//
//   for tile of (co, phase, tap) (rows) x ci (columns), split:        a block of threads
//     warpgroup 0, for stage of positions (n, i) of the split:
//       x [ci][position] by tensor copies, dy [co][o] by 16-byte asynchronous copies, zeros outside
//     warpgroups 1 and 2, for stage, for 32 bytes of positions:
//       operand: dy at (position, tap), rounded; sums += operand * x
//     at most kSm90WeightChain wgmma on a sum, then it is added to the split's own part
//   a second kernel adds the parts of all splits in order
//
// A slot: x in blocks of 128 bytes of positions, [block][ci][128 bytes], swizzled by 128 bytes and rounded to
// tf32 (to nearest) on the way; then the rows of dy, as they lie in memory from the last 16-byte boundary
// before their first element on. Stride, tap, phase and padding are places in a row of dy.
//
// The bits do not depend on how x is loaded: element by element it is rounded in the same way.
#pragma once

#include "cuda/sm80/weight.hpp"
#include "cuda/sm90/params.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm90Weight;

inline constexpr int kSm90WeightBlock = 128;   // bytes of positions of a block of x
inline constexpr int kSm90WeightChain = 2048;  // wgmma on a sum: 4096 were off by 2.1e-4, all of one sign
inline constexpr int kSm90WeightMaxSlots = 8;
// Bytes before the slots: barriers, and sums on their way to memory.
inline constexpr int kSm90WeightBarriers = 1024, kSm90WeightStaging = 10240;
inline constexpr int kSm90WeightHead = kSm90WeightBarriers + kSm90WeightStaging;
inline constexpr int kSm90WeightProducers = 128, kSm90WeightWarpgroups = 2;
inline constexpr int kSm90WeightThreads = kSm90WeightProducers + 128 * kSm90WeightWarpgroups;

struct Sm90WeightParams {
  WeightParams k;
  TensorMap map;
  int32_t slots, x_bytes;  // of a slot, before dy
  int32_t box_rows;        // channels of a tensor copy
  bool tensor;             // x by tensor copies, else by elements
};

// Row blocks of 64 of a warpgroup, and columns.
struct Sm90WeightShape {
  int row_blocks, columns;
  constexpr int rows() const { return 64 * kSm90WeightWarpgroups * row_blocks; }
};
inline constexpr int kSm90WeightShapes = 4;
inline constexpr Sm90WeightShape kSm90WeightShapeTable[kSm90WeightShapes] = {
    {3, 128}, {1, 128}, {3, 64}, {3, 32}};

struct Sm90WeightFunctions {
  void (*shapes[kSm90WeightShapes])(Sm90WeightParams);
};
Sm90WeightFunctions sm90_weight_tf32();
Sm90WeightFunctions sm90_weight_f16();
Sm90WeightFunctions sm90_weight_bf16();

}  // namespace tconv::cuda
