// Host side of gather.cuh.
#pragma once

#include <cstdint>

#include "core/problem.hpp"

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSimtGather;

namespace simt {

struct GatherParams {
  const void* x;
  const void* weight;
  const void* bias;  // or null
  void* y;
  int64_t x_sample, x_channel, x_position;
  int64_t l, lout, padding, k, stride, dilation;
  int64_t cin_per_group, cout_per_group, groups;
  int64_t common, inverse;   // g, and the inverse of d/g modulo s/g
  int64_t q_first;           // Q of output 0
  int64_t residues, q_step;  // of a block: r in [0, residues), and Q from one thread step to the next
  int64_t q_tiles, residue_chunks, co_blocks, tiles;
};

// Warps of all tiles, and a thread's output channels and positions.
struct GatherWork {
  double warps;
  int couts, positions;
};
GatherWork gather_work(const core::Problem& p);

using GatherFunction = void (*)(GatherParams);
// (co, p) is (1, 1), (1, 4) or (4, 2).
GatherFunction gather_function(core::DType dtype, int co, int p);

}  // namespace simt
}  // namespace tconv::cuda
