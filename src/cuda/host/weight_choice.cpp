#include <algorithm>

#include "cuda/host/choice.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/simt/bias.hpp"
#include "cuda/simt/outer.hpp"
#include "cuda/simt/weight_plan.hpp"
#include "cuda/simt/weight_staged.hpp"
#include "cuda/sm80/weight.hpp"
#include "cuda/sm80/weight_plan.hpp"
#include "cuda/sm90/weight.hpp"
#include "cuda/sm90/weight_blocked.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"
#include "cuda/sm90/weight_plan.hpp"
#include "cuda/sm90/weight_rows.hpp"
#include "cuda/sm90/weight_rows_plan.hpp"
#include "cuda/sm90/weight_turned.hpp"
#include "cuda/sm90/weight_turned_plan.hpp"

namespace tconv::cuda {
namespace {

using core::DeviceInfo;
using core::Problem;
using plan::KernelEntry;

// Families' models choose among their own plans; between families those of the tensor cores are off by up to
// 3. So a time is expected to be a start, the model's time, and that of copying as many bytes as dw has, each
// with a weight. The start is negative where the model's own is too long; then the model is the least. In
// rows of odd lengths elements of 16 bits are copied one by one, which takes a time of its own. Fitted to all
// kernels of 504 drawn problems (seeds 606, 2002, 4104 in bf16, tf32 and ieee; H100, in a graph), those of 16
// bits to 514 others. The choice takes 1.028, 1.014 and 1.015 times as long as the fastest kernel (geometric
// mean) and is within 10% of it on 91, 94 and 94%; in bf16 on 360 problems to which simt.weight_staged is not
// fitted.
struct FamilyWeights {
  double start, model, dw;      // seconds; of the model's seconds; of those of a copy
  double odd_x = 0, odd_y = 0;  // seconds of an element of 16 bits in a row of odd length
};
struct ByMode {
  FamilyWeights half, tf32, other;  // 16 bits; tf32; ieee float32 and f64
};
constexpr FamilyWeights kOuterWeights = {0, 0.9, 0};
// The part of dw keeps gradients of few positions, whose tiles store more than they multiply, with
// simt.outer.
constexpr FamilyWeights kBlockedWeights = {0, 1, 0.5};
// In ieee also fitted to 70 layers of real models at batch 16 and larger ones: long rows take less here than
// by weight_turned (n64 ci128 co128 l65536 k3: 5.6 ms and 6.8).
constexpr ByMode kRowsWeights = {{0, 1.13, 0}, {0.8e-6, 1.16, 0}, {4e-6, 1.08, 0}};

double weighted(const FamilyWeights& w, double seconds, const Problem& p, const DeviceInfo& d) {
  const double bytes = static_cast<double>(p.weight_elements()) * static_cast<double>(size_of(p.dtype));
  const double odd = (p.l % 2 != 0 ? w.odd_x * static_cast<double>(p.x_elements()) : 0) +
                     (p.lout() % 2 != 0 ? w.odd_y * static_cast<double>(p.y_elements()) : 0);
  return std::max(w.start < 0 ? seconds : 0,
                  w.start + w.model * seconds + odd + w.dw * bytes / (1e9 * std::max(1.0, d.copy_gbps)));
}

double weighted(const ByMode& by_mode, double seconds, const Problem& p, const DeviceInfo& d) {
  return weighted(size_of(p.dtype) == 2                  ? by_mode.half
                  : arithmetic_of(p) == Arithmetic::tf32 ? by_mode.tf32
                                                         : by_mode.other,
                  seconds, p, d);
}

// Of a kernel that can run the problem.
double expected_seconds(const KernelEntry& entry, const Problem& p, const DeviceInfo& d) {
  if (&entry == &kSimtOuter) return weighted(kOuterWeights, simt::outer_plan(p, d).seconds, p, d);
  if (&entry == &kSimtWeight) return simt::weight_plan(p, d).seconds;
  if (&entry == &kSimtWeightStaged) return simt::staged_plan(p, d).seconds;
  if (&entry == &kSm80Weight) return weight_search(p, d).cost.total;
  if (&entry == &kSm90Weight) return sm90_weight_search(p, d).cost.total;
  if (&entry == &kSm90WeightRows) return weighted(kRowsWeights, sm90_weight_rows_plan(p, d).cost.total, p, d);
  if (&entry == &kSm90WeightTurned) return sm90_weight_turned_plan(p, d).cost.total;
  return weighted(kBlockedWeights, sm90_weight_blocked_plan(p, d).cost.total, p, d);
}

// Its time is not below this: a search is not needed where another kernel takes no longer.
double least_seconds(const KernelEntry& entry, const Problem& p, const DeviceInfo& d) {
  if (&entry == &kSimtWeightStaged) return simt::staged_least_seconds(p, d);
  if (&entry == &kSimtWeight) return simt::weight_least_seconds(p, d);
  if (&entry == &kSm80Weight) return weight_least_seconds(p, d);
  if (&entry == &kSm90Weight) return sm90_weight_least_seconds(p, d);
  return 0;
}

KernelChoice compare(const Problem& p, const DeviceInfo& d) {
  static const KernelEntry* const kCompared[] = {&kSimtOuter,         &kSm90WeightRows, &kSm90WeightTurned,
                                                 &kSm90WeightBlocked, &kSimtWeight,     &kSimtWeightStaged,
                                                 &kSm90Weight,        &kSm80Weight};
  KernelChoice best;
  plan::PlanOptions forced;
  for (const KernelEntry* entry : kCompared) {
    if (best.entry != nullptr && 1e3 * least_seconds(*entry, p, d) >= best.ms) continue;
    forced.force_kernel = entry->name;
    if (!entry->supports(p, d, forced).ok) continue;
    const double ms = 1e3 * expected_seconds(*entry, p, d);
    if (best.entry == nullptr || ms < best.ms) best = {entry, ms};
  }
  return best;
}

KernelChoice choice_alone(const Problem& problem, const DeviceInfo& device) {
  static thread_local Memo<KernelChoice> memo;
  return memo.get(problem, device, false, [&] { return compare(problem, device); });
}

// With the gradient of the bias, which takes a kernel of its own where the kernel of the weight does not sum
// it.
KernelChoice choice_with_bias(const Problem& p, const DeviceInfo& d) {
  Problem alone = p;
  alone.has_bias = alone.bias_of_x = false;
  KernelChoice best = choice_alone(alone, d);
  if (best.entry == nullptr || p.bias_of_x) return best;
  const auto sums = [&](const KernelEntry& entry) {
    return entry.grad_bias != nullptr && entry.grad_bias(p, d);
  };
  if (!sums(*best.entry)) best.ms += kSimtBias.make(grad_bias_of(p), d, {})->predicted_ms();
  for (const KernelEntry* entry : {&kSm90WeightRows, &kSm90WeightTurned}) {
    if (!sums(*entry)) continue;
    const double ms = 1e3 * expected_seconds(*entry, p, d);
    if (entry == best.entry || ms < best.ms) best = {entry, ms};
  }
  return best;
}

}  // namespace

// An entry whose kernel leaves the bias to another asks without it. So both answers may differ, and the list
// has entries that sum the bias before the others.
KernelChoice weight_choice(const Problem& problem, const DeviceInfo& device) {
  if (!problem.writes_grad_bias()) return choice_alone(problem, device);
  static thread_local Memo<KernelChoice> memo;
  return memo.get(problem, device, false, [&] { return choice_with_bias(problem, device); });
}

}  // namespace tconv::cuda
