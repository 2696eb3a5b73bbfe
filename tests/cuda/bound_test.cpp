// Searches and the choice among kernels pass over what a bound says cannot be the fastest: no bound may be
// above an expected time.
#include "cuda/sm90/bound.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/polyphase.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/expected_ms.hpp"
#include "cuda/plan/candidates.hpp"
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
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/dense.hpp"
#include "cuda/sm90/dense_plan.hpp"
#include "cuda/sm90/pointwise.hpp"
#include "judge/rng.hpp"

namespace tconv::cuda {
namespace {

constexpr double kRounding = 1 - 1e-9;

std::vector<const plan::KernelEntry*> transposed_kernels() {
  return {&kSm90Pointwise, &kSm80Pointwise, &kSimtDepthwise, &kSm80Overlap, &kSimtDense,
          &kSimtNarrow,    &kSm80Thin,      &kSimtLongk,     &kSimtFlipped, &kSimtGather,
          &kSm90Dense,     &kSm90Blocked,   &kSm80Dense};
}
std::vector<const plan::KernelEntry*> strided_kernels() {
  return {&kSm90Pointwise, &kSm80Pointwise, &kSm80Window,  &kSm80Thin,
          &kSimtStrided,   &kSm90Dense,     &kSm90Blocked, &kSm80Dense};
}

core::DeviceInfo device(const char* name) {
  return core::named_device(name).value();
}

// A layer of the sizes that models have.
core::Problem drawn(judge::Rng& rng) {
  core::Problem p;
  p.operation = rng.pick({core::Operation::transposed, core::Operation::strided});
  p.dtype = rng.pick({core::DType::f32, core::DType::bf16});
  p.precision = rng.pick({core::Precision::tf32, core::Precision::ieee});
  p.groups = rng.pick({1, 1, 1, 1, 2, 8});
  p.n = rng.pick({1, 1, 2, 16, 64, 200});
  p.cin = p.groups * rng.pick({1, 3, 16, 32, 64, 100, 128, 256, 512, 1000});
  p.cout = p.groups * rng.pick({1, 2, 16, 32, 49, 64, 128, 256, 512});
  p.stride = rng.pick({1, 1, 1, 2, 3, 4, 8, 10});
  p.k = rng.chance(50) ? p.stride * rng.between(1, 2) : rng.between(1, 12);
  p.dilation = rng.chance(20) ? rng.between(1, 9) : 1;
  p.l = rng.pick({1, 7, 32, 100, 512, 3000, 20000});
  p.padding = rng.between(0, p.dilation * (p.k - 1) / 2);
  p.has_bias = rng.chance(50);
  return p;
}

TEST(Bound, NoConfigurationIsExpectedBelowIt) {
  judge::Rng rng(31);
  const core::DeviceInfo d = device("h200");
  int blocked = 0, dense = 0;
  for (int i = 0; i < 300; ++i) {
    const core::Problem p = drawn(rng);
    if (!validate(p).ok() || !no_transposed_form(p).empty()) continue;
    const TransposedForm form = transposed_form(p);
    const Sm90DenseBound of_dense(form.product, d);
    for (int at = 0; at < 1 << 9; ++at) {
      Sm90Config config;
      config.tile = at & 7, config.splits = kTensorSplits[at >> 3 & 3];
      config.folded = at & 32, config.scaled = at & 64, config.turned = at & 128, config.phased = at & 256;
      if (config.tile >= static_cast<int>(sm90_tiles().size())) continue;
      if (config.turned && config.phased) continue;
      const Arithmetic mode = arithmetic_of(p);
      if (!config.turned && !config.phased && sm90_has(mode, config.scaled, config.tile)) {
        const Sm90Plan plan = sm90_plan_of(form.product, d, config);
        if (plan.blocks > 0) {
          ++dense;
          EXPECT_GE(plan.cost.total, kRounding * of_dense.ms(config))
              << text(p) << ": " << describe(plan, form.product);
        }
      }
      if (config.tile >= kSm90GatherTiles) continue;
      const Sm90BlockedPlan plan = sm90_blocked_plan_of(p, d, config);
      if (plan.main.blocks == 0) continue;
      ++blocked;
      EXPECT_GE(plan.total_ms(), kRounding * Sm90BlockedBound(plan.form, p, d, config).ms(config))
          << text(p) << ": " << describe(plan);
    }
  }
  EXPECT_GT(blocked, 2000);
  EXPECT_GT(dense, 2000);
}

// The choice is the least of all expected times, though not all are computed.
TEST(Bound, TheChoiceIsTheFastestByTheModels) {
  judge::Rng rng(37);
  int compared = 0;
  for (int i = 0; i < 4000; ++i) {
    core::Problem p = drawn(rng);
    if (rng.chance(10)) p.dtype = core::DType::f64;
    if (!validate(p).ok()) continue;
    const core::DeviceInfo d =
        device(rng.pick({"h200", "h200", "h100", "a100", "b200", "l4", "rtx4090", "t4", "v100"}));
    const KernelChoice choice = product_choice(p, d, {});
    ASSERT_NE(choice.entry, nullptr) << text(p);
    const bool strided = p.operation == core::Operation::strided;
    for (const plan::KernelEntry* entry : strided ? strided_kernels() : transposed_kernels()) {
      plan::PlanOptions forced;
      forced.force_kernel = entry->name;
      if (!entry->supports(p, d, forced).ok) continue;
      const double ms = expected_ms(*entry, p, d, false);
      if (ms == 0) continue;
      ++compared;
      EXPECT_GE(ms, choice.ms) << text(p) << " " << d.name << ": " << choice.entry->name << ", not "
                               << entry->name;
      EXPECT_GE(ms, kRounding * least_expected_ms(*entry, p, d)) << text(p) << " " << entry->name;
    }
  }
  EXPECT_GT(compared, 1500);
}

}  // namespace
}  // namespace tconv::cuda
