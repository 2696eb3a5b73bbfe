// cuda.sm90.dense: transposed products as an implicit matrix product by wgmma, on Hopper.
//
// In the polyphase form (cuda/device/phases.hpp) a row is (cout, phase), phase fastest; a column is a
// position u; the depth is channels x taps. One persistent kernel (kernel.cuh), one block on each SM, whose
// warps either load or multiply; x takes one of two ways, each a set of stages:
//
//                  gather_stages.cuh                        tma_stages.cuh
//   x              GatherSource: elements, through          TmaSource: tensor copies of raw rows, a ring for
//                  registers, to a ring of operands         each warpgroup; ElementSource, where x does not
//                                                           begin on 16 bytes: slower, with the same bits
//   weights        PackedSource, one tap in a slot          PackedSource, one slab in a slot
//   operands       in shared memory, made by the source     RegisterLoop: in registers, up to 4 neighbouring
//                                                           taps; SharedLoop: in shared memory, any taps
//   products       GatheredProduct                          SingleProduct; PromotedProduct of split operands
//   rows of wgmma  packed rows                              positions
//   outputs        PassWriter, staged by passes, or         RegisterWriter, WindowWriter or staged
//                  partial sums                             (TileWriter chooses)
//   takes          everything: folded, split, skewed        long samples, contiguous in memory
//
// The loop nest of the gathered way (tma_stages.cuh has the other one):
//
//   for each group, pair of row blocks, split, and, walking on, tile of columns:                 one block
//     for each slab of channels, group of taps:                                                  one x stage
//       7 warps load x, C + halo positions, round or split it, and write it to a ring of stages
//       1 warp brings the weights of each tap, by bulk copies, to a ring of slots (or, where all fit, once)
//       2 warpgroups, for each tap j:  sums[row][u] += packed[row][slab, j] * x[slab][u - j*step]   wgmma
//     the 2 warpgroups: y[n, cout, stride*u + a*dilation - padding] = sums[cout, a][u] + bias[cout]
//
// Operands in shared memory are K-major, without swizzle: [16-byte channel block][row or position][channels
// of the block], 4 channels of float32, 8 of a 16-bit type. A tap's shift is then a whole number of 16-byte
// steps of the descriptor's address: any shift, dilation and alignment of x costs the same, and no tap costs
// an instruction beyond its wgmma.
//
// A row block is 64 rows: block_couts = 64 / phases whole couts with all their phases, so that a warpgroup
// holds whole runs of outputs and can write them alone. Packed weights are the slots in the order of the
// loops, whatever the tile:
//
//   packed[group][row block][slab][tap][part][channel block 0..3][row 0..63][16 bytes]
//
// then 64 bytes for each row block: whether any of its weights is not finite (one byte for each part that was
// packed separately). Rows and channels that do not exist are zero, and so are weights of taps that a phase
// does not have. Zero times infinity is NaN where there is no product at all. So if there are such zeros, or
// a weight is not finite (x is surrounded by zeros), an output that became NaN is computed again by fused
// multiply-adds (repair.cuh). Such a product can only make NaN, so whatever came out as a number is correct.
//
// float32 has two layouts, both of which are packed: operands in tf32, and scaled to float16, with a scale
// for each cout (arithmetic.cuh, Fp16Scaled and Fp16Split), in slabs of 32 channels, at twice the tensor
// cores' rate. A tile of x that does not fit in float16 is marked, and computed by a second launch with the
// first layout.
//
// Modes: as in sm80/dense.hpp.
//
// ieee float32 is hi*hi + hi*lo + lo*hi. The tensor core truncates when it
// accumulates, so its sums are added up in registers from time to time. In tf32 a tap's products go to fresh
// sums. In float16 lo is kept 2^11 times larger, so that it has all its bits whenever hi is normal: hi*hi
// goes to fresh sums for 32 channels of some taps, the others to sums of their own (if x is gathered, to the
// same registers before). Either way that is 22 bits of each operand.
//
// Splits and folded samples: as in sm80/dense.hpp, [split][row][column] in the workspace, summed in order.
// docs/design/hopper.md has what else was tried.
#pragma once

#include "cuda/device/phases.hpp"
#include "cuda/sm80/dense.hpp"
#include "cuda/sm90/params.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm90Dense;

struct Sm90Functions {
  // [1]: rows of y are stored line by line. Null if the mode does not have it.
  void (*gather[2][kSm90GatherTiles])(Sm90GatherParams);
  void (*tma[2][kSm90MaxTapGroup + 1])(Sm90TmaParams);  // of one row block or two, by tap_group
  // Null where operands are scaled: with tf32.
  void (*pack)(Sm90PackParams), (*pack_stream)(Sm90PackParams);
  void (*look)(Sm90LookParams);  // null for 16-bit types too
};

// A plan's own instantiations and, for float32 in float16, those of the first launch.
struct Sm90Kernels {
  Sm90Functions plain, scaled;
};

// One source file for each mode.
Sm90Functions sm90_tf32();
Sm90Functions sm90_scaled();
Sm90Functions sm90_split();
Sm90Functions sm90_ieee();
Sm90Functions sm90_f16();
Sm90Functions sm90_bf16();

}  // namespace tconv::cuda
