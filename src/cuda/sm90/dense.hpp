// cuda.sm90.dense: transposed products as an implicit matrix product by wgmma, on Hopper.
//
// In the polyphase form (cuda/device/phases.hpp) a row is (cout, phase), phase fastest; a column is a
// position u; the depth is channels x taps. One kernel (kernel.cuh), persistent, an SM a block, whose warps
// bring or multiply; x takes one of two ways, each a set of stages:
//
//                  gather_stages.cuh                        tma_stages.cuh
//   x              GatherSource: elements, through          TmaSource: tensor copies of raw rows, a ring a
//                  registers, to a ring of operands         warpgroup; ElementSource, where x does not begin
//                                                           on 16 bytes: slower, with the same bits
//   weights        PackedSource, a tap a slot               PackedSource, a slab a slot
//   operands       in shared memory, made by the source     RegisterLoop: in registers, up to 4 neighbouring
//                                                           taps; SharedLoop: in shared memory, any taps
//   products       GatheredProduct                          SingleProduct; PromotedProduct of split operands
//   rows of wgmma  packed rows                              positions
//   outputs        PassWriter, staged by passes, or         RegisterWriter, WindowWriter or staged
//                  partial sums                             (TileWriter chooses)
//   takes          everything: folded, split, skewed        long samples of one stretch of memory
//
// The gathered way's loop nest, the other one's is in tma_stages.cuh:
//
//   for each group, pair of row blocks, split, and, walking on, tile of columns:                 one block
//     for each slab of channels, group of taps:                                                  one x stage
//       7 warps load x, C + halo positions, round or split it, and write it to a ring of stages
//       1 warp brings the weights of each tap, by bulk copies, to a ring of slots (or, where all fit, once)
//       2 warpgroups, for each tap j:  sums[row][u] += packed[row][slab, j] * x[slab][u - j*step]   wgmma
//     the 2 warpgroups: y[n, cout, stride*u + a*dilation - padding] = sums[cout, a][u] + bias[cout]
//
// Operands in shared memory lie without swizzle, K-major: [16-byte channel block][row or position][channels
// of the block], 4 channels of float32, 8 of a 16-bit type. A tap's shift is then a whole number of 16-byte
// steps of the descriptor's address: any shift, dilation and alignment of x costs the same, and no tap costs
// an instruction beyond its wgmma.
//
// A row block is 64 rows: block_couts = 64 / phases whole couts with all their phases, so that a warpgroup
// holds whole runs of outputs and writes them by itself. Packed weights are the slots in the order of the
// loops, whatever the tile:
//
//   packed[group][row block][slab][tap][part][channel block 0..3][row 0..63][16 bytes]
//
// then, for each row block, 8 bytes: whether any of its weights is not finite (one byte for each part that
// was packed apart). Rows and channels that do not exist are zero, and so are weights of taps that a phase
// does not have. Zero times infinity is NaN where there is no product at all, so where such zeros stand, or a
// weight is not finite (zeros stand around x), an output that became NaN is computed again by fused
// multiply-adds (repair.cuh). A NaN is all that such a product makes, so whatever came out as a number is
// right.
//
// float32 has two layouts, both packed: operands in tf32, and scaled to float16, with a scale for each cout
// (arithmetic.cuh, Fp16Scaled and Fp16Split), in slabs of 32 channels and at twice the tensor cores' rate. A
// tile of x that float16 cannot carry is marked and computed by a second launch over the first layout.
//
// Modes: as in sm80/modes.cuh. ieee float32 is hi*hi + hi*lo + lo*hi, as the tensor core truncates where it
// accumulates with sums that are added in registers from time to time. In tf32 a tap's products go to fresh
// sums. In float16 lo is kept 2^11 times larger, so that it has all its bits wherever hi is normal: hi*hi
// goes to fresh sums for 32 channels of some taps, the others to sums of their own (gathered, to the same
// registers before). That is 22 bits of each operand either way.
//
// Splits and folded samples: as in sm80/dense.hpp, [split][row][column] in the workspace, summed in order.
// What else was tried: docs/design/hopper.md.
#pragma once

#include "cuda/device/phases.hpp"
#include "cuda/sm80/dense.hpp"
#include "cuda/sm90/params.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm90Dense;

struct Sm90Functions {
  void (*gather[kSm90GatherTiles])(Sm90GatherParams);   // null where the mode has none
  void (*tma[2][kSm90MaxTapGroup + 1])(Sm90TmaParams);  // of one row block or two, by tap_group
  void (*pack)(Sm90PackParams);                         // null where operands are scaled: with tf32
};

// A plan's own instantiations, and, of float32 in float16, those of the first launch.
struct Sm90Kernels {
  Sm90Functions plain, scaled;
};

// One source file a mode.
Sm90Functions sm90_tf32();
Sm90Functions sm90_scaled();
Sm90Functions sm90_split();
Sm90Functions sm90_ieee();
Sm90Functions sm90_f16();
Sm90Functions sm90_bf16();

}  // namespace tconv::cuda
