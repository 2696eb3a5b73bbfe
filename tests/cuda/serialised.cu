// A kernel whose wgmma ptxas serialises, because their sums are read while they are written:
// scripts/checked_nvcc must not let it pass. With SOUND defined the sums are read behind the wait.
#include "cuda/device/ptx/sm90.cuh"

namespace tconv::cuda {

__global__ void __launch_bounds__(128, 1) serialised(float* y, uint64_t a, uint64_t b, int count) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  float sums[32] = {};
  for (int i = 0; i < count; ++i) {
    ptx::wgmma_fence();
    ptx::wgmma<ptx::Operand::f16, 64>(sums, a + i, b + i, 1);
    ptx::wgmma_commit();
#ifndef SOUND
    sums[0] += 1.0f;
#endif
  }
  ptx::wgmma_wait<0>(sums);
  for (int i = 0; i < 32; ++i) y[threadIdx.x * 32 + i] = sums[i];
#endif
}

}  // namespace tconv::cuda
