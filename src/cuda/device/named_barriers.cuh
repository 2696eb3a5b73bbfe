// Barriers of some of a block's warps, by number: one list, so that no two uses share one. 0 is
// __syncthreads'.
#pragma once

#include "cuda/device/ptx/sm90.cuh"

namespace tconv::cuda {

enum class NamedBarrier : int {
  warpgroup = 1,  // one for each warpgroup that multiplies, at most three: 1, 2, 3
  rows = 4,       // the writer's table of rows is there
  scale = 5,      // warps that load have agreed on a scale
  turn = 6        // of one of two warpgroups to multiply: 6, 7
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ inline void sync_warps(NamedBarrier barrier, int threads) {
  ptx::named_barrier(static_cast<int>(barrier), threads);
}
__device__ inline void sync_warpgroup(int warpgroup) {
  ptx::named_barrier(static_cast<int>(NamedBarrier::warpgroup) + warpgroup, 128);
}
// Waits for the warpgroup's turn to multiply; gives it to the other one of two.
__device__ inline void wait_for_turn(int warpgroup) {
  ptx::named_barrier(static_cast<int>(NamedBarrier::turn) + warpgroup, 256);
}
__device__ inline void give_turn(int to_warpgroup) {
  ptx::named_barrier_arrive(static_cast<int>(NamedBarrier::turn) + to_warpgroup, 256);
}
// The same as sync_warpgroup(); whether `own` is true in any thread.
__device__ inline bool any_of_warpgroup(int warpgroup, bool own) {
  return ptx::named_barrier_any(static_cast<int>(NamedBarrier::warpgroup) + warpgroup, 128, own);
}
#endif

}  // namespace tconv::cuda
