// wgmma with both operands in shared memory, as matrices of rows times depth. tf32 and 16-bit types lie
// differently: in tf32 neighbours along the depth are adjacent, in 16-bit types those of eight rows are.
#pragma once

#include "cuda/device/ptx/sm90_tf32.cuh"

namespace tconv::cuda::ptx {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

#define TCONV_SUMS_8(i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define TCONV_SUMS_32(i) TCONV_SUMS_8(i), TCONV_SUMS_8(i + 8), TCONV_SUMS_8(i + 16), TCONV_SUMS_8(i + 24)
#define TCONV_SUMS_64 TCONV_SUMS_32(0), TCONV_SUMS_32(32)
#define TCONV_SUMS_96 TCONV_SUMS_64, TCONV_SUMS_32(64)
#define TCONV_SUMS_128 TCONV_SUMS_96, TCONV_SUMS_32(96)
#define TCONV_NAMES_32                                                                             \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31"
#define TCONV_NAMES_64                                                                                    \
  TCONV_NAMES_32                                                                                          \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56," \
  "%57,%58,%59,%60,%61,%62,%63"
#define TCONV_NAMES_96                                                                                    \
  TCONV_NAMES_64                                                                                          \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88," \
  "%89,%90,%91,%92,%93,%94,%95"
#define TCONV_NAMES_128                                                                               \
  TCONV_NAMES_96                                                                                      \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115," \
  "%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define TCONV_WGMMA(shape, types, names, da, db, flag, tail)                                       \
  "{.reg .pred p;\nsetp.ne.b32 p, " flag ", 0;\nwgmma.mma_async.sync.aligned." shape ".f32." types \
  " {" names "}, " da ", " db ", p, " tail ";}\n"
#define TCONV_CASE(type, n, shape, types, sums, names, da, db, flag, tail) \
  if constexpr (Type == Operand::type && N == n) {                         \
    asm volatile(TCONV_WGMMA(shape, types, names, da, db, flag, tail)      \
                 : sums                                                    \
                 : "l"(a), "l"(b), "r"(accumulate));                       \
  }
#define TCONV_WIDTHS(type, k, types, tail)                                                             \
  TCONV_CASE(type, 64, "m64n64" k, types, TCONV_SUMS_32(0), TCONV_NAMES_32, "%32", "%33", "%34", tail) \
  TCONV_CASE(type, 128, "m64n128" k, types, TCONV_SUMS_64, TCONV_NAMES_64, "%64", "%65", "%66", tail)  \
  TCONV_CASE(type, 192, "m64n192" k, types, TCONV_SUMS_96, TCONV_NAMES_96, "%96", "%97", "%98", tail)  \
  TCONV_CASE(type, 256, "m64n256" k, types, TCONV_SUMS_128, TCONV_NAMES_128, "%128", "%129", "%130", tail)

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
#undef TCONV_WGMMA
#undef TCONV_NAMES_128
#undef TCONV_NAMES_96
#undef TCONV_NAMES_64
#undef TCONV_NAMES_32
#undef TCONV_SUMS_128
#undef TCONV_SUMS_96
#undef TCONV_SUMS_64
#undef TCONV_SUMS_32
#undef TCONV_SUMS_8

#endif

}  // namespace tconv::cuda::ptx
