#include "cuda/host/choice.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

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

// What is compared, and bounds of its expected times on Hopper: milliseconds to begin, and multiples of the
// times of memory and of products at the full rate, of multiply-adds in simt kernels. They are below the
// least of 6,960 drawn and large random products and of some 700,000 as tests/cuda/bound_test.cpp draws them,
// in bf16, tf32 and ieee (h200, h100).
struct Compared {
  const KernelEntry* entry;
  bool multiply_adds;
  double start, memory, products;
};
constexpr std::array<Compared, 13> kTransposed = {{{&kSm90Pointwise, false, 4.2e-3, 1.3, 1.7},
                                                   {&kSm80Pointwise, false, 3e-3, 1.26, 2.88},
                                                   {&kSimtDepthwise, true, 2.5e-3, 1.16, 1.67},
                                                   {&kSm80Overlap, false, 4e-3, 0.84, 2.82},
                                                   {&kSimtDense, true, 8.2e-3, 1.42, 1.13},
                                                   {&kSimtNarrow, true, 5.6e-3, 0.77, 1.9},
                                                   {&kSm80Thin, false, 8.4e-3, 1.6, 2.77},
                                                   {&kSimtLongk, true, 5.6e-3, 0.77, 1.9},
                                                   {&kSimtFlipped, true, 3.5e-3, 0.88, 1.58},
                                                   {&kSimtGather, true, 2.6e-3, 0.62, 9.8},
                                                   {&kSm90Dense, false, 6.1e-3, 0.55, 0.28},
                                                   {&kSm90Blocked, false, 9.3e-3, 0.5, 0.45},
                                                   {&kSm80Dense, false, 7.5e-3, 1.35, 3.1}}};
constexpr std::array<Compared, 8> kStrided = {{kTransposed[0],
                                               kTransposed[1],
                                               {&kSm80Window, false, 5.8e-3, 1.14, 2.67},
                                               kTransposed[6],
                                               {&kSimtStrided, true, 3.3e-3, 0.9, 1.39},
                                               kTransposed[10],
                                               kTransposed[11],
                                               kTransposed[12]}};

// No expected time of the entry is below this: its plan need not be made where another's time is. Of other
// devices the share of the rates that kernels reach differs (cuda.sm80.window on an A100 2.5 times), of f64
// too; to begin takes at least as long, or up to a tenth less.
double least_ms(const Compared& c, const Problem& p, const DeviceInfo& d) {
  if (d.sm != 90 || p.dtype == core::DType::f64) return 0.9 * c.start;
  const double rate = c.multiply_adds ? d.fp32_gflops : tensor_gflops(p, d);
  const double products = problem_work(p).flops / std::max(1.0, rate) * 1e-6;
  return std::max({c.start, c.memory * memory_ms(p, d), c.products * products});
}

// In rising order of their bounds, so that few plans are made.
template <std::size_t kCount>
KernelChoice compare(const std::array<Compared, kCount>& all, const Problem& p, const DeviceInfo& d,
                     const PlanOptions& options) {
  std::array<KernelChoice, kCount> least;  // the entry, and its bound
  for (std::size_t i = 0; i < kCount; ++i) least[i] = {all[i].entry, least_ms(all[i], p, d)};
  std::stable_sort(least.begin(), least.end(), [](const auto& a, const auto& b) { return a.ms < b.ms; });
  KernelChoice best;
  PlanOptions forced = options;
  for (const KernelChoice& next : least) {
    if (best.entry != nullptr && next.ms >= best.ms) break;
    if (!options.features.without(next.entry->features).empty()) continue;
    if (best.entry != nullptr && least_expected_ms(*next.entry, p, d) >= best.ms) continue;
    forced.force_kernel = next.entry->name;
    if (!next.entry->supports(p, d, forced).ok) continue;
    const double ms = expected_ms(*next.entry, p, d, options.batch_invariant);
    if (ms > 0 && (best.entry == nullptr || ms < best.ms)) best = {next.entry, ms};
  }
  return best;
}

KernelChoice compare(const Problem& p, const DeviceInfo& d, const PlanOptions& options) {
  if (p.operation == core::Operation::strided) return compare(kStrided, p, d, options);
  return compare(kTransposed, p, d, options);
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
