// Part of the plan of cuda.sm90.blocked: float32 held in float16 (blocked_scale.cuh).
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/blocked_plan.hpp"

namespace tconv::cuda {

using core::ceil_div;
using core::DeviceInfo;

namespace {

int64_t most_bytes(const Sm90BlockedPlan& plan) {
  return round_up<int64_t>(4 * plan.scales * plan.seen.shares, 256);
}
// Samples that share a scale.
int64_t samples_of_scale(const Sm90BlockingParams& b) {
  return b.samples / std::max(1, b.row_samples);
}
int64_t exponent_bytes(const Sm90BlockedPlan& plan) {
  return round_up<int64_t>(4 * plan.scales, 256);
}
// Words that begin at zero: the counters, three more for each scale, and one.
int64_t zeros(const Sm90BlockedPlan& plan) {
  return plan.scales * (plan.seen.pieces + 3) + 1;
}

}  // namespace

// Shares: as many blocks as keep every SM busy, each with some thousand elements; the pass reads the shares
// of a scale with up to 32 lanes. A sample is enough where all of x or of the tails would take longer than
// the launch that stands by for what the sample missed: 4 to 5 us, in which 16 MB are read (H100).
void sm90_set_seen(Sm90BlockedPlan& plan, const DeviceInfo& d) {
  constexpr int64_t kElements = 4096, kBlocksOfSm = 8, kMostShares = 512, kSampled = 16'000'000;
  const Sm90BlockingParams& b = plan.blocking;
  plan.scales = std::max<int64_t>(1, int64_t{plan.main.params.sizes.groups} * b.row_samples);
  const int64_t elements = b.channels * b.length * samples_of_scale(b);
  const bool large = std::max(4 * elements * plan.scales, plan.tail_bytes) >= kSampled;
  plan.main.config.sampled = plan.main.config.sampled || large;
  plan.seen.every = plan.main.config.sampled ? 16 : 1;
  const int64_t wanted = ceil_div(kBlocksOfSm * std::max(1, d.sm_count), plan.scales);
  plan.seen.shares = static_cast<int32_t>(
      std::clamp<int64_t>(std::min(wanted, ceil_div(elements, plan.seen.every * kElements)), 1, kMostShares));
  plan.seen.pieces = static_cast<int32_t>(ceil_div(b.pitch, int64_t{kSm90TinyUnits}));
}

int64_t sm90_seen_bytes(const Sm90BlockedPlan& plan) {
  if (!plan.main.config.scaled) return 0;
  return 2 * most_bytes(plan) + exponent_bytes(plan) + round_up<int64_t>(4 * zeros(plan), 256);
}

Sm90BlockedSeen sm90_seen_at(const Sm90BlockedPlan& plan, std::byte* at) {
  Sm90BlockedSeen seen = plan.seen;
  seen.most = reinterpret_cast<uint32_t*>(at);
  seen.below = reinterpret_cast<uint32_t*>(at + most_bytes(plan));
  seen.exponents = reinterpret_cast<int32_t*>(at + 2 * most_bytes(plan));
  seen.tiny = reinterpret_cast<uint32_t*>(at + 2 * most_bytes(plan) + exponent_bytes(plan));
  seen.beyond = seen.tiny + plan.scales * plan.seen.pieces;
  seen.wide = seen.beyond + plan.scales;
  seen.lost = seen.wide + plan.scales;
  seen.any = seen.lost + plan.scales;
  return seen;
}

Sm90BlockedLookParams sm90_look_params(const Sm90BlockedPlan& plan, const void* x) {
  const Sm90BlockingParams& b = plan.blocking;
  Sm90BlockedLookParams k{};
  k.from = x;
  std::copy_n(b.from_step, 3, k.from_step);
  k.channels = b.channels, k.length = b.length;
  k.samples = samples_of_scale(b);
  k.row_samples = b.row_samples;
  k.zeros = zeros(plan);
  return k;
}

Sm90LookWay sm90_look_way(const Sm90BlockedLookParams& k) {
  if (k.from_step[2] != 1 || (k.channels > 1 && k.from_step[1] != k.length)) return Sm90LookWay::any;
  const int64_t span = k.channels * k.length;
  const int64_t group = k.channels > 1 ? span : k.from_step[1];
  const bool vectors =
      reinterpret_cast<uintptr_t>(k.from) % 16 == 0 && (span | group | k.from_step[0]) % 4 == 0;
  return vectors ? Sm90LookWay::vectors : Sm90LookWay::together;
}

}  // namespace tconv::cuda
