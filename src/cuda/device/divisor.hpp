// Division by a number known at launch: a multiplication and a shift (Granlund and Montgomery), for
// dividends below 2^31.
#pragma once

#include <cstdint>

namespace tconv::cuda {

struct Divisor {
  uint32_t value = 1;
  uint32_t multiplier = 0;
  uint32_t shift = 0;

  static Divisor of(uint32_t d) {  // 1 <= d < 2^31
    uint32_t log = 0;
    while ((uint64_t{1} << log) < d) ++log;
    if (log == 0) return {};
    const uint64_t power = uint64_t{1} << (31 + log);
    return {d, static_cast<uint32_t>((power + d - 1) / d), log - 1};
  }

#ifdef __CUDACC__
  __device__ uint32_t divide(uint32_t n) const {
    return value == 1 ? n : __umulhi(n, multiplier) >> shift;
  }
#endif
};

}  // namespace tconv::cuda
