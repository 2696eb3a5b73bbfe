// Vectors of up to 32 bytes, where the choices of several families differ. Each gives its reason; this is
// what the plans of cpu.dense and cpu.strided have in common. A core with AVX2 alone has 32 KiB of L1, 256 or
// 512 KiB of L2 and registers for 4 rows, so that a panel that comes from L2 anew for each of them holds its
// multiply-adds up. A few tiles of the panel stay in L1 instead, and weights come from L2 in order. On an AMD
// EPYC (Zen 3) the multiply-adds alone go from 70 to 95% of what they reach with all operands in L1. With
// vectors of 64 bytes and 2 MiB of L2 the same order took 1.2 times as long, and it stores more rows in turn.
#pragma once

#include <cstdint>

namespace tconv::cpu {

constexpr bool short_vectors(int64_t vector_bytes) {
  return vector_bytes < 64;
}

// Bytes of L1 for columns and the weights of a row block; weights of a pass, in L2; a panel. On that Zen 3
// cpu.strided is 3% faster with these than with panels of 48K elements and passes of 64K (8 layers).
inline constexpr int64_t kFirstCacheBytes = 28 * 1024, kPassElements = 32 * 1024,
                         kShortPanelElements = 32 * 1024;

}  // namespace tconv::cpu
