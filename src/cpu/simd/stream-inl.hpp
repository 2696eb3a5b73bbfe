// Stores past the caches, for an output that no cache will hold: an ordinary store reads a line before it
// writes it. Compiled once per SIMD target.
#include <algorithm>
#include <cstring>

#include "cpu/simd/tiles-inl.hpp"
#include "hwy/cache_control.h"

#if defined(TCONV_CPU_SIMD_STREAM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_CPU_SIMD_STREAM_INL_H
#undef TCONV_CPU_SIMD_STREAM_INL_H
#else
#define TCONV_CPU_SIMD_STREAM_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[i] = from[i]. Only whole lines go past the caches: two threads may share the lines at the ends.
// A task that has called this ends with hwy::FlushStream(), so that others see what it wrote.
template <class T>
HWY_INLINE void StreamRow(const T* HWY_RESTRICT from, int64_t count, T* HWY_RESTRICT to) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const hn::ScalableTag<uint8_t> d;
  const int64_t bytes = static_cast<int64_t>(hn::Lanes(d));
  const auto ahead = static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(to) % 64 / sizeof(T));
  const int64_t head = std::min(count, (kLine - ahead) % kLine), body = (count - head) / kLine * kLine;
  std::memcpy(to, from, static_cast<std::size_t>(head) * sizeof(T));
  const auto* source = reinterpret_cast<const uint8_t*>(from + head);
  auto* target = reinterpret_cast<uint8_t*>(to + head);
  for (int64_t i = 0; i < body * static_cast<int64_t>(sizeof(T)); i += bytes) {
    hn::Stream(hn::LoadU(d, source + i), d, target + i);
  }
  const int64_t done = head + body;
  std::memcpy(to + done, from + done, static_cast<std::size_t>(count - done) * sizeof(T));
}

}  // namespace tconv::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
