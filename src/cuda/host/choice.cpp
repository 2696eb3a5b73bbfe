#include "cuda/host/choice.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/simt/dense_plan.hpp"
#include "cuda/simt/depthwise.hpp"
#include "cuda/simt/gather.hpp"
#include "cuda/simt/longk.hpp"
#include "cuda/simt/narrow_plan.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm80/overlap_plan.hpp"
#include "cuda/sm90/blocked.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/dense.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;
using plan::KernelEntry;
using plan::PlanOptions;

// Families' models choose among their own plans; between families they are off by up to 2. So the parts of a
// model are weighted here, fitted to 1,150 times of 520 drawn and hand-made problems (H200, packed weights,
// in a graph or back to back): half of them are within 10% in all families but narrow and longk (19%) and
// gather.

// Of a plan of cuda.sm90.dense, by tensor copies or gathered; gap: the bytes of outputs without taps.
struct Sm90Weights {
  double start, tensor, load, l2, store, dram, gap, launch;
};
constexpr Sm90Weights kSm90[2][3] = {{{4.3e-3, 0.56, 0.79, 0.32, 0.49, 0.10, 0.38, 0.54},
                                      {5.0e-3, 0.21, 0.72, 1.33, 0.75, 0.24, 1.0, 0.09},
                                      {4.5e-3, 0.30, 0.53, 0.90, 0.17, 0.41, 1.0, 0.17}},
                                     {{3.5e-3, 0.54, 0.60, 0, 0.43, 0.64, 5.2, 2.24},
                                      {5.9e-3, 0.27, 0.96, 0, 0.43, 0.57, 4.6, 1.05},
                                      {3.4e-3, 1.41, 0.32, 0, 1.17, 0.12, 1.6, 1.52}}};
// Of cuda.sm80.dense and cuda.sm90.blocked, in float32 and 16 bit.
struct Sm80Weights {
  double start, waves, tensor, shared, l2, dram, gap;
};
constexpr Sm80Weights kSm80[2] = {{0.2e-3, 2.66, 0.16, 0.31, 0.64, 0.99, 1.67},
                                  {0.2e-3, 3.60, 0.07, 0.47, 0.11, 1.82, 0.61}};
struct BlockedWeights {
  double start, launch, tensor, l2, store, dram, pass;
};
constexpr BlockedWeights kBlocked[2] = {{4.8e-3, 0.32, 0.74, 0.42, 0.38, 1.21, 0.48},
                                        {5.2e-3, 0.85, 0.59, 0.39, 0.57, 1.27, 0.45}};
// Of cuda.simt.dense: its model, milliseconds an element of y, and a block of each SM.
struct DenseWeights {
  double model = 1.13, output = 2.5e-9, block = 0.36e-3;
} constexpr kDense;
// Of narrow and longk; cycles of a multiply-add that a scheduler issues, and of an iteration's latency.
struct NarrowWeights {
  double start = 3.1e-3, memory = 0.39, product = 2.2, iteration = 195, chunk = 1.4e-3, sum = 6.2;
  double clock = 1.7e9;
} constexpr kNarrow;
struct GatherWeights {
  double start = 7.8e-3, memory = 3.7, flops = 0.165e-9, term = 0.2e-3;
} constexpr kGather;
// Callers pack before, or in each call: half of what packing takes.
constexpr double kPackStart = 1.5e-3, kPackByte = 0.6e-9;

double memory_ms(const Problem& p, const DeviceInfo& d) {
  return d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-6 : 0;
}
double gap_ms(const Problem& p, const DeviceInfo& d) {
  const auto stride = static_cast<double>(p.stride);
  return memory_ms(p, d) * std::max(0.0, stride - static_cast<double>(p.k)) / stride;
}
double pack_ms(const Problem& p) {
  return kPackStart +
         kPackByte * static_cast<double>(p.weight_elements()) * static_cast<double>(size_of(p.dtype));
}
// How much longer an SM's multiply-adds take than those of an H200.
double slower(const DeviceInfo& d) {
  constexpr double kRate = 50.6e3 / 132;  // GFLOP/s an SM
  const double rate = d.fp32_gflops / std::max(1, d.sm_count);
  return rate > 0 ? std::max(1.0, kRate / rate) : 1;
}
int narrow_type(const Problem& p) {
  return size_of(p.dtype) == 2 ? 1 : 0;
}

double sm90_ms(const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  const Sm90Plan plan = sm90_plan(p, d, batch_invariant);
  if (plan.blocks == 0) return 0;
  const int mode = arithmetic_of(p) == Arithmetic::ieee ? 2 : narrow_type(p);
  const Sm90Weights& w = kSm90[sm90_tile(plan.config).tma ? 1 : 0][mode];
  const Sm90Cost& c = plan.cost;
  constexpr double kOneLaunch = 2.9e-3;
  return w.start + w.tensor * c.tensor + w.load * c.load + w.l2 * c.l2 + w.store * c.store + w.dram * c.dram +
         w.gap * gap_ms(p, d) + w.launch * std::max(0.0, c.launch - kOneLaunch) + pack_ms(p);
}

double sm80_ms(const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  // On an H200, n64 ci128 co128 l65536 k3 takes 11.1 ms in ieee here, 10.7 in cuda.simt.dense; f64 is not
  // measured.
  if (arithmetic_of(p) == Arithmetic::ieee || arithmetic_of(p) == Arithmetic::f64) return 0;
  const Sm80Plan plan = sm80_plan(p, d, batch_invariant);
  if (plan.blocks == 0) return 0;
  const Sm80Weights& w = kSm80[narrow_type(p)];
  const Sm80Cost& c = plan.cost;
  return w.start + w.waves * c.waves + w.tensor * c.tensor + w.shared * c.shared + w.l2 * c.l2 +
         w.dram * c.dram + w.gap * gap_ms(p, d) + pack_ms(p);
}

double blocked_ms(const Problem& p, const DeviceInfo& d) {
  const Sm90BlockedPlan plan = sm90_blocked_plan(p, d);
  if (plan.main.blocks == 0) return 0;
  const BlockedWeights& w = kBlocked[narrow_type(p)];
  const Sm90Cost& c = plan.main.cost;
  constexpr double kOneLaunch = 3.0e-3;
  return w.start + w.launch * std::max(0.0, c.launch - kOneLaunch) + w.tensor * c.tensor + w.l2 * c.l2 +
         w.store * c.store + w.dram * c.dram + w.pass * plan.blocking_ms + pack_ms(p);
}

double dense_ms(const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  const DensePlan plan = plan_dense(p, d, batch_invariant);
  return kDense.model * slower(d) * plan.ms + kDense.output * static_cast<double>(p.y_elements()) +
         kDense.block * static_cast<double>(plan.blocks(p)) / std::max(1, d.sm_count) + pack_ms(p);
}

double narrow_ms(const Problem& p, const DeviceInfo& d, bool batch_invariant, bool split) {
  const simt::NarrowConfig c = simt::plan_narrow(p, d, batch_invariant, split);
  const double columns = c.shape.co * c.shape.r, sums = columns * c.shape.p;
  const double tiles = static_cast<double>(p.n * p.groups * c.q_tiles) *
                       static_cast<double>(c.co_blocks * c.residue_groups * c.splits);
  const double warps = std::ceil(tiles / std::max(1, d.sm_count)) * c.threads() / 32;
  const double waves = std::ceil(tiles / static_cast<double>(std::max<int64_t>(1, c.blocks)));
  const double iterations = static_cast<double>(ceil_div(c.cin_per_split, c.slice_warps) * c.taps);
  const double cycles = kNarrow.product * slower(d) * iterations * sums * warps / 4 +
                        kNarrow.iteration * waves * iterations + kNarrow.sum * 2 * warps * sums;
  return kNarrow.start + kNarrow.memory * memory_ms(p, d) + cycles / kNarrow.clock * 1e3 +
         kNarrow.chunk * waves * static_cast<double>(ceil_div(c.cin_per_split, c.chunk)) +
         (c.splits > 1 ? 0.4e-3 : 0);
}

double gather_ms(const Problem& p, const DeviceInfo& d) {
  const core::Polyphase form(p);
  return kGather.start + kGather.memory * memory_ms(p, d) +
         kGather.flops * slower(d) * problem_work(p).flops +
         kGather.term * static_cast<double>(p.cin_per_group() * form.taps);
}

// 0: not to be compared.
double expected_ms(const KernelEntry& entry, const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  if (&entry == &kSm80Overlap) return overlap_plan(p, d, batch_invariant).ms;
  if (&entry == &kSm90Dense) return sm90_ms(p, d, batch_invariant);
  if (&entry == &kSm90Blocked) return blocked_ms(p, d);
  if (&entry == &kSm80Dense) return sm80_ms(p, d, batch_invariant);
  if (&entry == &kSimtDense) return dense_ms(p, d, batch_invariant);
  if (&entry == &kSimtGather) return gather_ms(p, d);
  if (&entry == &kSimtNarrow) return narrow_ms(p, d, batch_invariant, false);
  return narrow_ms(p, d, batch_invariant, true);
}

// No time of a kernel that packs is below this: plans need not be made where another is.
double least_ms(const KernelEntry& entry, const Problem& p, const DeviceInfo& d) {
  const bool packs = &entry == &kSm90Dense || &entry == &kSm90Blocked || &entry == &kSm80Dense;
  if (!packs) return 0;
  const double rate = size_of(p.dtype) == 2 ? d.half_gflops : d.tf32_gflops;
  const double products = problem_work(p).flops / std::max(1.0, rate) * 1e-6;
  return std::max(5e-3, std::max(0.7 * memory_ms(p, d), 0.7 * products)) + pack_ms(p);
}

KernelChoice compare(const Problem& p, const DeviceInfo& d, const PlanOptions& options) {
  // Those whose plans take least time come first, so that others need not be made.
  static const KernelEntry* const kCompared[] = {&kSm80Overlap, &kSimtDense, &kSimtNarrow,  &kSimtLongk,
                                                 &kSimtGather,  &kSm90Dense, &kSm90Blocked, &kSm80Dense};
  KernelChoice best;
  const auto has_features = [&](const KernelEntry& entry) {
    return options.features.without(entry.features).empty();
  };
  if (has_features(kSimtDepthwise) && kSimtDepthwise.supports(p, d, options).ok) return {&kSimtDepthwise, 0};
  PlanOptions forced = options;
  for (const KernelEntry* entry : kCompared) {
    if (entry == &kSm90Blocked && !sm90_blocked_pays(p)) continue;
    if (!has_features(*entry) || (best.entry != nullptr && least_ms(*entry, p, d) >= best.ms)) continue;
    forced.force_kernel = entry->name;
    if (!entry->supports(p, d, forced).ok) continue;
    const double ms = expected_ms(*entry, p, d, options.batch_invariant);
    if (ms > 0 && (best.entry == nullptr || ms < best.ms)) best = {entry, ms};
  }
  return best;
}

}  // namespace

KernelChoice forward_choice(const Problem& problem, const DeviceInfo& device, const PlanOptions& options) {
  static thread_local Memo<KernelChoice> memo;
  Problem p = problem;
  if (options.batch_invariant && p.n > 1) {
    // Of counts beyond its limits a kernel refuses the batch alone.
    p.n = 1;
    PlanOptions forced = options;
    if (const KernelEntry* entry = forward_choice(p, device, options).entry; entry != nullptr) {
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
                                  : forward_choice(problem, device, options);
  if (choice.entry == nullptr || choice.entry == &entry) return plan::Support::yes();
  char text[96];
  if (choice.ms > 0) {
    std::snprintf(text, sizeof text, "%s is expected to be faster: %.4f ms", choice.entry->name, choice.ms);
  } else {
    std::snprintf(text, sizeof text, "%s is made for it", choice.entry->name);
  }
  return plan::Support::no(text);
}

}  // namespace tconv::cuda
