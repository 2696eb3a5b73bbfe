// Programmatic dependent launch. On compute capability 9.0 the Launcher lets the blocks of a kernel start
// before the kernel before on the stream is complete: once all blocks of that one have ended, or called
// let_launch_after_begin(). Less time passes between two kernels. So every kernel of the library begins with
// wait_for_launch_before() (tests/scripts/test_launch_order.py), which returns when the kernel before, and
// with it every earlier one, is complete, and what they stored is visible.
//
// A kernel that reads nothing of the kernel before, but of earlier ones, may run beside it: it waits at its
// end, so that whoever waits for it has waited for both. It may do so only behind a kernel of the library
// that waits before its blocks let the launch after begin. Or only a part of it runs beside: the warps of
// cuda.sm90 that bring x, while those that read packed weights wait for the kernel that packs them.
//
// A kernel lets the next one begin early if that one runs beside it, or has one block on each SM, whose
// blocks wait where they will work: passes and zeros before a main kernel of cuda.sm90, and that before its
// second launch. With both, 148 drawn products of 12 to 250 us on raw weights take 0.965 times as long (H100,
// in a graph; geometric mean, from 0.85 to 1.03). Others must not. Blocks of the next kernel would take
// places as they become free, not evenly: depthwise layers of several blocks an SM took up to 1.5 times as
// long, cuda.sm80.window 1.05 to 1.15 times, ordered sums behind main kernels of cuda.sm90 1.01 to 1.02
// times. Or they hinder a pass, perhaps because their shared memory is taken from its L1 cache: behind passes
// of cuda.sm90.blocked over more than 64 MB calls took 1.01 times as long, those of cuda.sm90.weight_blocked
// in tf32 1.03 times, up to 1.17.
#pragma once

#include "cuda/device/launch_order.hpp"

namespace tconv::cuda {

// The launch after may begin when all blocks have called this or ended.
__device__ inline void let_launch_after_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// order.beside: the kernel runs beside the one before, and calls wait_for_launch_beside() at its end.
__device__ inline void wait_for_launch_before(const LaunchOrder& order = {}) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (!order.beside) asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
  if (order.lets_begin) let_launch_after_begin();
}

__device__ inline void wait_for_launch_beside(const LaunchOrder& order) {
  if (order.beside) wait_for_launch_before();
}

}  // namespace tconv::cuda
