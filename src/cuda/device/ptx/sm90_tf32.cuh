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
// that of any 32 bytes of the first row.
__device__ inline uint64_t swizzled_descriptor(uint32_t address) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 |
         uint64_t{1} << 62;
}

#define TCONV_SUMS_8(i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define TCONV_SUMS_32(i) TCONV_SUMS_8(i), TCONV_SUMS_8(i + 8), TCONV_SUMS_8(i + 16), TCONV_SUMS_8(i + 24)
#define TCONV_NAMES_32                                                                             \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31"
#define TCONV_NAMES_64                                                                                    \
  TCONV_NAMES_32                                                                                          \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56," \
  "%57,%58,%59,%60,%61,%62,%63"
#define TCONV_WGMMA(shape, names, a0, a1, a2, a3, db, flag)                          \
  "{.reg .pred p;\nsetp.ne.b32 p, " flag ", 0;\nwgmma.mma_async.sync.aligned." shape \
  "k8.f32.tf32.tf32 {" names "}, {" a0 "," a1 "," a2 "," a3 "}, " db ", p, 1, 1;}\n"

// d (64 x N) = a (64 x 8) * b (8 x N), plus d if accumulate. a: rows lane/4 and 8 below at depth lane%4,
// then the same at depth 4 further.
template <int N>
__device__ inline void wgmma_tf32(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64) {
    asm volatile(TCONV_WGMMA("m64n64", TCONV_NAMES_32, "%32", "%33", "%34", "%35", "%36", "%37")
                 : TCONV_SUMS_32(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  } else {
    asm volatile(TCONV_WGMMA("m64n128", TCONV_NAMES_64, "%64", "%65", "%66", "%67", "%68", "%69")
                 : TCONV_SUMS_32(0), TCONV_SUMS_32(32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  }
}

#undef TCONV_WGMMA
#undef TCONV_NAMES_64
#undef TCONV_NAMES_32
#undef TCONV_SUMS_32
#undef TCONV_SUMS_8

#endif

}  // namespace tconv::cuda::ptx
