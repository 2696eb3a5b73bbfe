// Planning for GPUs needs none: choice and explanation for named devices, and the formulas behind the
// kernels.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "core/polyphase.hpp"
#include "cuda/entries.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/simt/dense_plan.hpp"
#include "judge/draw.hpp"
#include "plan/planner.hpp"

namespace tconv {
namespace {

using core::DeviceInfo;
using core::Problem;

constexpr const char* kDevices[] = {"h200", "a100", "t4", "v100"};

DeviceInfo named(const char* name) {
  return core::named_device(name).value();
}

// Every (output, tap) that the operation's formula joins belongs to one (phase, tap index, position), with
// the same input.
void expect_complete(const Problem& p) {
  const cuda::Phases f = cuda::phases_of(p);
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t u = f.first; u < f.first + f.positions; ++u) {
    for (int64_t a = 0; a < f.count; ++a) {
      const int64_t o = f.stride * u + a * f.dilation - f.padding;
      if (o < 0 || o >= p.lout()) continue;
      for (int64_t j = 0; j < f.taps; ++j) {
        const int64_t k = a + j * f.tap_stride, i = u - j * f.step;
        if (k >= p.k) continue;
        ASSERT_EQ(p.stride * i, o + p.padding - k * p.dilation);
        ASSERT_TRUE(seen.insert({o, k}).second) << "output " << o << " meets tap " << k << " twice";
      }
    }
  }
  for (int64_t o = 0; o < p.lout(); ++o) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t reach = o + p.padding - k * p.dilation;
      if (reach % p.stride != 0) continue;
      const bool reads = reach >= 0 && reach / p.stride < p.l;
      ASSERT_TRUE(!reads || seen.count({o, k}) == 1) << "output " << o << " misses tap " << k;
    }
  }
}

TEST(CudaPhases, HoldEveryProductOnce) {
  judge::Rng rng(3, 1);
  for (int i = 0; i < 400; ++i) {
    Problem p = judge::draw_valid(rng, {.gradients = false, .typical = 3000});
    SCOPED_TRACE(text(p));
    p.cin = p.cout = p.groups = 1;
    expect_complete(p);
  }
}

TEST(CudaPhases, InterleavedRowsCoverTheOutput) {
  judge::Rng rng(3, 2);
  for (int i = 0; i < 400; ++i) {
    const Problem p = judge::draw_valid(rng, {.gradients = false});
    const cuda::Phases f = cuda::phases_of(p);
    if (!f.interleaved || p.lout() == 0) continue;
    EXPECT_LE(f.stride * f.first - f.padding, 0) << text(p);
    EXPECT_GE(f.stride * (f.first + f.positions) - f.padding, p.lout()) << text(p);
  }
}

TEST(CudaDivisor, DividesLikeTheProcessor) {
  judge::Rng rng(3, 3);
  for (int i = 0; i < 20'000; ++i) {
    const auto d = static_cast<uint32_t>(rng.log_between(1, 0x7fffffff));
    const auto n = static_cast<uint32_t>(
        rng.chance(50) ? rng.between(0, 0x7fffffff)
                       : std::min<int64_t>(rng.between(0, 99) * d + rng.between(0, 1) * (d - 1), 0x7fffffff));
    const cuda::Divisor by = cuda::Divisor::of(d);
    const auto high = static_cast<uint32_t>(static_cast<uint64_t>(n) * by.multiplier >> 32);
    ASSERT_EQ(by.value == 1 ? n : high >> by.shift, n / d) << n << " / " << d;
  }
}

TEST(CudaPlan, TakesEveryValidProblemWithReasons) {
  for (const char* name : kDevices) {
    const DeviceInfo device = named(name);
    judge::Rng rng(5, 1);
    for (int i = 0; i < 1500; ++i) {
      const Problem p = judge::draw_valid(rng);
      const auto made = plan::make_plan(p, device, {});
      ASSERT_TRUE(made.ok()) << text(p) << ": " << made.status().message();
      const plan::Plan& plan = made.value();
      EXPECT_EQ(plan.entry->device, core::DeviceKind::cuda);
      EXPECT_FALSE(plan.kernel->describe().empty());
      for (const plan::Refused& r : plan.refused) EXPECT_FALSE(r.reason.empty()) << r.entry->name;
      const std::string words = explain(plan);
      EXPECT_NE(words.find(std::string("kernel   ") + plan.entry->name), std::string::npos) << words;
    }
  }
}

TEST(CudaPlan, SaysWhereTf32RunsAsIeee) {
  auto p = core::parse("n4 ci64 co64 l1000 k4 s2 p1 f32 tf32").value();
  plan::PlanOptions options;
  options.force_kernel = "cuda.simt.dense";
  const auto made = plan::make_plan(p, named("h200"), options);
  ASSERT_TRUE(made.ok());
  EXPECT_NE(explain(made.value()).find("tf32 runs as ieee"), std::string::npos);
}

TEST(CudaPlan, OfANamedDeviceIsExplainedNotRun) {
  judge::Rng rng(5, 2);
  const DeviceInfo device = named("h200");
  for (int i = 0; i < 60; ++i) {
    const Problem p = judge::draw_valid(rng);
    if (p.output_elements() == 0) continue;
    for (const plan::KernelEntry* entry : plan::supporting(p, device, {})) {
      float x = 0;
      const auto kernel = entry->make(p, device, {});
      const core::Status status = kernel->run({&x, &x, &x, &x, &x}, {});
      EXPECT_EQ(status.code(), core::Code::unsupported) << entry->name << ": " << status.message();
      EXPECT_NE(status.message().find("h200"), std::string::npos) << entry->name << ": " << status.message();
    }
  }
}

TEST(CudaPlan, PackKeyNamesTheLayout) {
  judge::Rng rng(5, 3);
  std::map<std::string, std::size_t> bytes;
  for (int i = 0; i < 1500; ++i) {
    Problem p = judge::draw_valid(rng, {.gradients = false});
    for (int variant = 0; variant < 3; ++variant) {
      for (const plan::KernelEntry* entry : plan::supporting(p, named("h200"), {})) {
        const auto kernel = entry->make(p, named("h200"), {});
        const auto [at, fresh] = bytes.emplace(kernel->pack_key(), kernel->packed_bytes());
        EXPECT_EQ(at->second, kernel->packed_bytes()) << text(p) << " " << kernel->pack_key();
      }
      p.n = rng.between(1, 9);  // neither n nor l may matter
      p.l += rng.between(1, 50);
      p.x_contiguous = true;
    }
  }
}

TEST(CudaDense, BatchInvariantPlansDoNotLookAtN) {
  judge::Rng rng(5, 4);
  for (int i = 0; i < 500; ++i) {
    Problem p = judge::draw_valid(rng, {.gradients = false});
    p.n = 1;
    const cuda::DensePlan one = cuda::plan_dense(p, named("h200"), true);
    p.n = 64;
    const cuda::DensePlan many = cuda::plan_dense(p, named("h200"), true);
    EXPECT_EQ(one.tile, many.tile) << text(p);
    EXPECT_EQ(one.splits, many.splits) << text(p);
  }
}

TEST(CudaDense, TilesAndClassesCoverTheProblem) {
  judge::Rng rng(5, 5);
  for (int i = 0; i < 2000; ++i) {
    const Problem p = judge::draw_valid(rng, {.gradients = false});
    const cuda::DensePlan plan = cuda::plan_dense(p, named("a100"), false);
    const cuda::DenseTile& tile = cuda::dense_tiles(p.dtype)[static_cast<std::size_t>(plan.tile)];
    EXPECT_EQ(plan.rows, p.n * plan.phases.positions) << text(p);
    EXPECT_GE(plan.row_tiles * tile.rows, plan.rows);
    int64_t phases = 0, weights = 0;
    for (const cuda::DenseClass& k : plan.classes) {
      EXPECT_GE(int64_t{k.column_tiles} * tile.columns, k.columns);
      phases += k.phases;
      weights += int64_t{k.phases} * k.taps;
    }
    EXPECT_EQ(phases, plan.phases.count) << text(p);
    EXPECT_EQ(weights, p.k) << text(p);  // every tap once, and none that is not there
  }
}

TEST(CudaDevices, AMissingOneIsSaidInWords) {
  const auto found = cuda::devices();
  const auto beyond = cuda::device_info(static_cast<int>(found.size()) + 1);
  ASSERT_FALSE(beyond.ok());
  EXPECT_GT(beyond.status().message().size(), 20u);
  if (found.empty()) {
    EXPECT_EQ(beyond.status().code(), core::Code::unsupported) << beyond.status().message();
  }
}

}  // namespace
}  // namespace tconv
