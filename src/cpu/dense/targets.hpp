// Included before hwy/foreach_target.h. Left out: SSSE3 (as fast here as the scalar fallback's heirs need),
// AVX3_DL (nothing of it is used) and vectors without a size at compile time (structs cannot hold them).
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
