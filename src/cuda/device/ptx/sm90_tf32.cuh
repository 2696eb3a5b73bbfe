// wgmma of tf32 with an operand in registers, operands that a tensor copy swizzled, and arrivals of
// asynchronous copies.
#pragma once

#include "cuda/device/ptx/sm90.cuh"

namespace tconv::cuda::ptx {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Counts one arrival once all asynchronous copies that this thread has issued have landed. The barrier's
// count, given when it was made, must include this arrival.
__device__ inline void copy_async_arrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\n" ::"r"(barrier) : "memory");
}

// Describes an operand in rows of 128 bytes, as a tensor copy with the 128-byte swizzle leaves it: 8 rows in
// 1024 bytes, which begin on a multiple of 1024; 16-byte unit u of row r is at u ^ r % 8. The address may be
// that of any 32 bytes of the first row. If the depth runs along rows instead (16-bit types), the address is
// that of any 16 rows, and the next 128 bytes of the operand's rows lie `apart` bytes further.
__device__ inline uint64_t swizzled_descriptor(uint32_t address, uint32_t apart = 16) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(apart >> 4) << 16 |
         uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

// d (64 x N) = a (64 x 8) * b (8 x N), plus d if accumulate. a: rows lane/4 and 8 below at depth lane%4,
// then the same at depth 4 further.
template <int N>
__device__ inline void wgmma_tf32(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  static_assert(N == 32 || N == 64 || N == 128);
  if constexpr (N == 32) {
    asm volatile(
        TCONV_WGMMA("m64n32k8", "tf32.tf32", TCONV_NAMES_16, "{%16,%17,%18,%19}", "%20", "%21", "1, 1")
        : TCONV_SUMS_16(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  } else if constexpr (N == 64) {
    asm volatile(
        TCONV_WGMMA("m64n64k8", "tf32.tf32", TCONV_NAMES_32, "{%32,%33,%34,%35}", "%36", "%37", "1, 1")
        : TCONV_SUMS_32(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  } else {
    asm volatile(
        TCONV_WGMMA("m64n128k8", "tf32.tf32", TCONV_NAMES_64, "{%64,%65,%66,%67}", "%68", "%69", "1, 1")
        : TCONV_SUMS_64(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  }
}

#endif

}  // namespace tconv::cuda::ptx
