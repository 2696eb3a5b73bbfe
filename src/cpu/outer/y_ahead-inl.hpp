// Prefetches rows of dy a few channels before they are copied: a chunk's part of a row is too short for a
// hardware prefetcher to notice in time.
#if defined(TCONV_OUTER_Y_AHEAD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_OUTER_Y_AHEAD_INL
#undef TCONV_OUTER_Y_AHEAD_INL
#else
#define TCONV_OUTER_Y_AHEAD_INL
#endif

#include <algorithm>

#include "cpu/outer/contract.hpp"
#include "cpu/simd/targets.hpp"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::outer {
namespace HWY_NAMESPACE {

template <class E>
HWY_INLINE void FetchLines(const E* from, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(E))) hwy::Prefetch(from + i);
}

// The outputs that a chunk's first sample meets, the same ones in every channel.
template <class T>
class YAhead {
 public:
  // dy: of the group, in sample 0.
  YAhead(const Job& job, const Task& task, const T* dy, int64_t begin, int64_t end) {
    const core::Problem& p = job.problem;
    const auto steps = p.y_steps();
    const int64_t n = begin / p.l, i = begin % p.l, run = std::min(end - begin, p.l - i);
    const int64_t reach = p.stride * (run - 1) + p.dilation * (p.k - 1) + 1;
    const int64_t o = p.stride * i - p.padding, first = std::clamp<int64_t>(o, 0, job.lout);
    const int64_t last = std::clamp<int64_t>(o + reach, first, job.lout);
    step_ = steps[1], row_ = dy + n * steps[0] + first;
    channels_ = steps[2] == 1 ? core::ceil_div(task.column_end, p.k) : 0;
    count_ = std::min<int64_t>(last - first, kMostBytes / static_cast<int64_t>(sizeof(T)));
  }

  // As channel co is copied.
  HWY_INLINE void fetch(int64_t co) const {
    if (co + kChannels < channels_) FetchLines(row_ + (co + kChannels) * step_, count_);
  }

 private:
  static constexpr int64_t kChannels = 4, kMostBytes = 2048;
  const T* row_;
  int64_t step_, channels_, count_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::outer
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
