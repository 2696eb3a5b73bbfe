// Programmatic dependent launch. On compute capability 9.0 the Launcher lets the blocks of a kernel start
// once those of the kernel before on the stream have ended, whether or not what they stored is visible by
// then: less time passes between two kernels. So every kernel of the library begins with this call
// (tests/scripts/test_launch_order.py).
#pragma once

namespace tconv::cuda {

// Returns when the kernel before is complete and its stores are visible.
__device__ inline void wait_for_launch_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

}  // namespace tconv::cuda
