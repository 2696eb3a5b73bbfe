// wgmma with both operands in shared memory, as matrices of rows times depth. tf32 and 16-bit types lie
// differently: in tf32 neighbours along the depth are adjacent, in 16-bit types those of eight rows are.
#pragma once

#include "cuda/device/ptx/sm90_tf32.cuh"

namespace tconv::cuda::ptx {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

#define TCONV_CASE(type, n, shape, types, sums, names, da, db, flag, tail) \
  if constexpr (Type == Operand::type && N == n) {                         \
    asm volatile(TCONV_WGMMA(shape, types, names, da, db, flag, tail)      \
                 : sums                                                    \
                 : "l"(a), "l"(b), "r"(accumulate));                       \
  }
#define TCONV_WIDTHS(type, k, types, tail)                                                                \
  TCONV_CASE(type, 64, "m64n64" k, types, TCONV_SUMS_32(d, 0), TCONV_NAMES_32, "%32", "%33", "%34", tail) \
  TCONV_CASE(type, 128, "m64n128" k, types, TCONV_SUMS_64(d), TCONV_NAMES_64, "%64", "%65", "%66", tail)  \
  TCONV_CASE(type, 192, "m64n192" k, types, TCONV_SUMS_96(d), TCONV_NAMES_96, "%96", "%97", "%98", tail)  \
  TCONV_CASE(type, 256, "m64n256" k, types, TCONV_SUMS_128(d), TCONV_NAMES_128, "%128", "%129", "%130", tail)

// d (64 x N) = a (64 x depth) * b (depth x N), plus d if accumulate; the depth is 32 bytes of one row. The
// sums lie as those of wgmma in sm90.cuh. Descriptors: swizzled_descriptor for tf32; for 16-bit types
// matrix_descriptor, whose core matrices are 8 steps of the depth, each 16 bytes of 8 neighbouring rows.
template <Operand Type, int N>
__device__ inline void wgmma_along_depth(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {
  static_assert(N == 64 || N == 128 || N == 192 || N == 256);
  TCONV_WIDTHS(tf32, "k8", "tf32.tf32", "1, 1")
  TCONV_WIDTHS(f16, "k16", "f16.f16", "1, 1, 1, 1")
  TCONV_WIDTHS(bf16, "k16", "bf16.bf16", "1, 1, 1, 1")
}

#undef TCONV_WIDTHS
#undef TCONV_CASE

#endif

}  // namespace tconv::cuda::ptx
