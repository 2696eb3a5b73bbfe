// Include before hwy/highway.h in every file that is compiled once per SIMD target.
// SSSE3 and the Ice Lake variant of AVX-512 are left out: SSE4 and plain AVX-512 serve those machines, and
// each target is one more pass of the compiler. Vectors without a size at compile time are left out too: no
// struct holds them, so NEON serves every Arm.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif

#include "hwy/targets.h"

// Whether the target being compiled has 32 vector registers, and whether it converts float16 in hardware.
#define TCONV_32_REGISTERS (HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64)
#define TCONV_HAVE_F16C (HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM_A64)

namespace tconv::cpu::simd {

const hwy::ChosenTarget& chosen_target();  // dispatch.hpp says which

}  // namespace tconv::cpu::simd

// The function of HWY_EXPORT(f) for the chosen target. Highway's own dispatch would share its choice with
// every other user of Highway in the process.
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
#define TCONV_DISPATCH(f) HWY_STATIC_DISPATCH(f)
#else
#define TCONV_DISPATCH(f) (*(HWY_DISPATCH_TABLE(f)[tconv::cpu::simd::chosen_target().GetIndex()]))
#endif
