#include "cuda/host/choice.hpp"

#include <algorithm>
#include <cstdio>
#include <span>

#include "cuda/host/expected_ms.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/simt/dense.hpp"
#include "cuda/simt/depthwise.hpp"
#include "cuda/simt/flipped.hpp"
#include "cuda/simt/gather.hpp"
#include "cuda/simt/longk.hpp"
#include "cuda/simt/narrow.hpp"
#include "cuda/simt/strided.hpp"
#include "cuda/sm80/dense.hpp"
#include "cuda/sm80/overlap.hpp"
#include "cuda/sm80/pointwise.hpp"
#include "cuda/sm80/thin.hpp"
#include "cuda/sm80/window.hpp"
#include "cuda/sm90/blocked.hpp"
#include "cuda/sm90/dense.hpp"
#include "cuda/sm90/pointwise.hpp"

namespace tconv::cuda {
namespace {

using core::DeviceInfo;
using core::Problem;
using plan::KernelEntry;
using plan::PlanOptions;

// No time of a kernel that packs is below this: plans need not be made where another is.
double least_ms(const KernelEntry& entry, const Problem& p, const DeviceInfo& d) {
  const bool packs = &entry == &kSm90Dense || &entry == &kSm90Blocked || &entry == &kSm80Dense;
  if (!packs) return 0;
  // float32 may be held in float16, ieee in two parts.
  const double rate =
      p.precision == core::Precision::ieee && size_of(p.dtype) == 4 ? d.tf32_gflops : d.half_gflops;
  const double products = problem_work(p).flops / std::max(1.0, rate) * 1e-6;
  return std::max(5e-3, std::max(0.7 * memory_ms(p, d), 0.7 * products));
}

KernelChoice compare(const Problem& p, const DeviceInfo& d, const PlanOptions& options) {
  // Those whose plans take least time come first, so that others need not be made.
  static const KernelEntry* const kTransposed[] = {
      &kSm90Pointwise, &kSm80Pointwise, &kSimtDepthwise, &kSm80Overlap, &kSimtDense,
      &kSimtNarrow,    &kSm80Thin,      &kSimtLongk,     &kSimtFlipped, &kSimtGather,
      &kSm90Dense,     &kSm90Blocked,   &kSm80Dense};
  static const KernelEntry* const kStrided[] = {&kSm90Pointwise, &kSm80Pointwise, &kSm80Window,  &kSm80Thin,
                                                &kSimtStrided,   &kSm90Dense,     &kSm90Blocked, &kSm80Dense};
  const bool strided = p.operation == core::Operation::strided;
  const std::span<const KernelEntry* const> compared =
      strided ? std::span<const KernelEntry* const>(kStrided) : kTransposed;
  KernelChoice best;
  const auto has_features = [&](const KernelEntry& entry) {
    return options.features.without(entry.features).empty();
  };
  PlanOptions forced = options;
  for (const KernelEntry* entry : compared) {
    if (!has_features(*entry) || (best.entry != nullptr && least_ms(*entry, p, d) >= best.ms)) continue;
    forced.force_kernel = entry->name;
    if (!entry->supports(p, d, forced).ok) continue;
    const double ms = expected_ms(*entry, p, d, options.batch_invariant);
    if (ms > 0 && (best.entry == nullptr || ms < best.ms)) best = {entry, ms};
  }
  return best;
}

}  // namespace

KernelChoice product_choice(const Problem& problem, const DeviceInfo& device, const PlanOptions& options) {
  static thread_local Memo<KernelChoice> memo;
  Problem p = problem;
  if (options.batch_invariant && p.n > 1) {
    // Of counts beyond its limits a kernel refuses the batch alone.
    p.n = 1;
    PlanOptions forced = options;
    if (const KernelEntry* entry = product_choice(p, device, options).entry; entry != nullptr) {
      forced.force_kernel = entry->name;
      if (!entry->supports(problem, device, forced).ok) p.n = problem.n;
    }
  }
  if (!options.features.empty()) return compare(p, device, options);
  return memo.get(p, device, options.batch_invariant, [&] { return compare(p, device, options); });
}

plan::Support supports_choice(const KernelEntry& entry, const Problem& problem, const DeviceInfo& device,
                              const PlanOptions& options) {
  const KernelChoice choice = problem.operation == core::Operation::weight
                                  ? weight_choice(problem, device)
                                  : product_choice(problem, device, options);
  if (choice.entry == nullptr || choice.entry == &entry) return plan::Support::yes();
  char text[96];
  std::snprintf(text, sizeof text, "%s is expected to be faster: %.4f ms", choice.entry->name, choice.ms);
  return plan::Support::no(text);
}

}  // namespace tconv::cuda
