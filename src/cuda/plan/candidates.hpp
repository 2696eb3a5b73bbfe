// How a plan is chosen among candidates: which splits of a reduction there are, and which of them batch
// invariance allows. A family enumerates its configurations, keeps those that fit, and takes the one with the
// least predicted time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/host/phases.hpp"

namespace tconv::cuda {

inline constexpr int kTensorSplits[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
inline constexpr int kAnySplits = 32;
inline constexpr int64_t kMaxPartialBytes = 256 << 20;  // a limit where the split may be chosen freely

// forced: the only split that is allowed; 0: any.
struct SplitLimits {
  int forced = 0, most = kAnySplits;

  bool take(int splits, int64_t slabs) const {
    return splits <= slabs && splits <= most && (forced == 0 || splits == forced);
  }
  bool take_bytes(int64_t partial_bytes) const { return forced > 0 || partial_bytes <= kMaxPartialBytes; }
};

inline bool may_fold(const core::Problem& p, const Phases& f) {
  // Between samples there are zeros as far as taps reach, maybe far more columns than the outputs need.
  const int64_t columns = f.positions + p.l + (f.taps - 1) * f.step;
  return p.n > 1 && f.positions < 256 && columns <= 32 * std::max<int64_t>(32, f.positions) &&
         p.n * columns < (int64_t{1} << 30);
}

// Splits that all samples share, however many there are: their sums must be no more than this many times y,
// whatever padding cuts off.
inline int most_shared_splits(const core::Problem& p, const Phases& f) {
  constexpr int64_t kMost = 64;
  const int64_t sums = std::max<int64_t>(1, f.positions * f.count);
  return static_cast<int>(std::clamp<int64_t>(kMost * p.lout() / sums, 1, kMost));
}

// cheapest(problem, limits) chooses among the family's candidates. If samples must not depend on their
// batch, one sample alone says how the reduction is split.
template <class Cheapest>
auto choose_plan(const core::Problem& p, bool batch_invariant, Cheapest&& cheapest) {
  if (!batch_invariant) return cheapest(p, SplitLimits{});
  core::Problem one = p;
  one.n = 1;
  const auto plan = cheapest(one, SplitLimits{0, most_shared_splits(one, phases_of(one))});
  return p.n == 1 ? plan : cheapest(p, SplitLimits{plan.config.splits, kAnySplits});
}

}  // namespace tconv::cuda
