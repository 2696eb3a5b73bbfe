// Stores of 8x8 matrices from a warp's registers to shared memory, on sm_90.
#pragma once

#include <cstdint>

namespace tconv::cuda::ptx {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Stores four matrices of 16-bit values, each transposed: lane i gives the address of row i%8 of the stored
// matrix i/8, and holds words of row i/4 of each matrix, as load_matrices() returns them (sm80.cuh).
__device__ inline void store_matrices_transposed(uint32_t row, const uint4& v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};\n" ::"r"(row), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

#endif

}  // namespace tconv::cuda::ptx
