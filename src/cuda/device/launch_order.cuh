// Programmatic dependent launch. On compute capability 9.0 the Launcher lets the blocks of a kernel start
// before the kernel before on the stream is complete: once all blocks of that one have ended, or called
// let_launch_after_begin(). Less time passes between two kernels. So every kernel of the library begins with
// wait_for_launch_before() (tests/scripts/test_launch_order.py), which returns when the kernel before, and
// with it every earlier one, is complete, and what they stored is visible.
//
// A kernel that reads nothing of the kernel before, but of earlier ones, may run beside it: it waits at its
// end, so that whoever waits for it has waited for both. It may do so only behind a kernel of the library
// that waits before its blocks let the launch after begin.
//
// Only kernels that another one may run beside let it begin early. If all did, blocks of the next kernel
// would take places as they become free, not evenly: depthwise layers of several blocks an SM took up to 1.5
// times as long, cuda.sm80.window 1.05 to 1.15 times (H100, in a graph).
#pragma once

namespace tconv::cuda {

// The launch after may begin when all blocks have called this or ended.
__device__ inline void let_launch_after_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// beside: the kernel runs beside the one before, and calls wait_for_launch_beside() at its end.
__device__ inline void wait_for_launch_before(bool beside = false) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (!beside) asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

__device__ inline void wait_for_launch_beside(bool beside) {
  wait_for_launch_before(!beside);
}

}  // namespace tconv::cuda
