// The judge catches what it is there to catch.
#include <gtest/gtest.h>

#include "faulty.hpp"

namespace tconv::judge::testing {
namespace {

// A CPU whose float32 arithmetic may round operands to tf32.
class Tf32Target final : public Target {
 public:
  const core::DeviceInfo& info() const override { return cpu_->info(); }
  core::Result<std::unique_ptr<Block>> allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  std::size_t memory_limit() const override { return cpu_->memory_limit(); }
  plan::PlanOptions options(int run) const override { return cpu_->options(run); }
  plan::RunContext context(int run) override { return cpu_->context(run); }
  core::Status finish() override { return {}; }
  Arithmetic arithmetic(const core::Problem& p) const override {
    Arithmetic arithmetic = cpu_->arithmetic(p);
    arithmetic.tf32 = p.precision == core::Precision::tf32;
    return arithmetic;
  }

 private:
  std::unique_ptr<Target> cpu_ = cpu_target(2);
};

core::Problem problem(const char* line) {
  return core::parse(line).value();
}

std::string verdict(Fault fault, const char* line, Fill fill, Target& target) {
  JudgeOptions options;
  options.seed = 11;
  auto made = Case::make(problem(line), fill, target, options);
  if (!made.ok()) return made.status().message();
  return judge(*made.value(), {"", &faulty(fault)}).failure;
}

std::string verdict(Fault fault, const char* line, Fill fill) {
  const auto target = cpu_target(2);
  return verdict(fault, line, fill, *target);
}

constexpr const char* kLines[] = {"n2 ci6 co5 l30 k4 s2 p1 bias f32", "n2 ci6 co5 l30 k4 s2 p1 bias f64",
                                  "n2 ci6 co5 l30 k4 s2 p1 bias f16", "n2 ci6 co5 l30 k4 s2 p1 bias bf16"};
constexpr Fill kFills[] = {Fill::integers, Fill::uniform, Fill::positive, Fill::spread, Fill::special};

TEST(Judge, AcceptsARightKernelOnEveryKindOfData) {
  for (const char* line : kLines) {
    for (const Fill fill : kFills) EXPECT_EQ(verdict(Fault::none, line, fill), "") << line;
  }
}

struct Planted {
  Fault fault;
  const char* says;  // part of the failure's line
};

TEST(Judge, CatchesEveryFaultOfMemoryAndBits) {
  const Planted planted[] = {{Fault::unwritten, "is NaN"},
                             {Fault::beyond_output, "behind the output"},
                             {Fault::before_output, "before the output"},
                             {Fault::beyond_workspace, "behind the workspace"},
                             {Fault::beyond_packed, "behind the packed weights"},
                             {Fault::changes_x, "changed its operand x"},
                             {Fault::reads_before_x, "is NaN"},
                             {Fault::reads_behind_weight, "is NaN"},
                             {Fault::threads_show, "other bits on a second run"},
                             {Fault::order_shows, "other bits on a second run"},
                             {Fault::packs_wrong, "other bits on a second run"},
                             {Fault::leans_on_workspace, "is NaN"}};
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer itself stops what reaches into a margin";
#endif
  for (const Planted& p : planted) {
    // Two threads take the first tasks in either order; with one thread, only the second run has another
    // order.
    const auto target = cpu_target(p.fault == Fault::order_shows ? 1 : 2);
    for (const char* line : kLines) {
      for (const Fill fill : {Fill::integers, Fill::uniform, Fill::positive, Fill::spread}) {
        const std::string failure = verdict(p.fault, line, fill, *target);
        EXPECT_NE(failure.find(p.says), std::string::npos) << line << ": " << p.says << ": " << failure;
      }
    }
  }
}

TEST(Judge, CatchesOneWrongElement) {
  for (const char* line : kLines) {
    for (const Fill fill : {Fill::integers, Fill::uniform, Fill::positive, Fill::spread}) {
      EXPECT_NE(verdict(Fault::wrong_element, line, fill), "") << line << " " << name_of(fill);
    }
    const std::string failure = verdict(Fault::wrong_by_one, line, Fill::integers);
    EXPECT_NE(failure.find("1 of 600 judged elements"), std::string::npos) << failure;
  }
}

// Which elements are special is drawn by the seed: enough seeds show every fault in every dtype, and most of
// them show it, so that a run over many problems cannot miss it.
int seeds_that_catch(Fault fault, const char* line, int seeds) {
  const auto target = cpu_target(2);
  int caught = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    JudgeOptions options;
    options.seed = static_cast<uint64_t>(seed);
    auto made = Case::make(problem(line), Fill::special, *target, options);
    if (!made.ok()) return 0;
    caught += judge(*made.value(), {"", &faulty(fault)}).right ? 0 : 1;
  }
  return caught;
}

TEST(Judge, CatchesWhatInfinitiesAndNaNShow) {
  for (const char* line : kLines) {
    EXPECT_EQ(seeds_that_catch(Fault::none, line, 60), 0) << line;
    EXPECT_GE(seeds_that_catch(Fault::multiplies_padding, line, 60), 15) << line;
    EXPECT_GE(seeds_that_catch(Fault::strange_nan, line, 60), 30) << line;
    EXPECT_EQ(seeds_that_catch(Fault::unwritten, line, 20), 20) << line;
  }
}

TEST(Judge, CatchesATruncatedResult) {
  EXPECT_NE(verdict(Fault::truncates, kLines[2], Fill::uniform), "");
  EXPECT_NE(verdict(Fault::truncates, kLines[3], Fill::uniform), "");
  EXPECT_NE(verdict(Fault::truncates, "n1 ci64 co4 l40 k4 s2 p1 bf16", Fill::integers), "");
}

TEST(Judge, CatchesCoarseArithmetic) {
  for (const Fill fill : {Fill::uniform, Fill::positive, Fill::spread}) {
    EXPECT_NE(verdict(Fault::coarse_operands, kLines[0], fill), "");
    EXPECT_NE(verdict(Fault::rounds_tf32, kLines[0], fill), "") << "ieee must not round operands";
    EXPECT_NE(verdict(Fault::coarse_sums, kLines[0], fill), "");
  }
  // Sums kept in float16 although float32 is promised: long sums expose it.
  EXPECT_NE(verdict(Fault::coarse_sums, "n1 ci200 co4 l20 k4 s2 p1 f16", Fill::positive), "");
}

TEST(Judge, TellsRoundingToTf32FromTruncation) {
  Tf32Target target;
  const char* line = "n1 ci96 co8 l64 k3 s1 p0 f32 tf32";
  for (const Fill fill : kFills)
    EXPECT_EQ(verdict(Fault::rounds_tf32, line, fill, target), "") << name_of(fill);
  for (const Fill fill : kFills) EXPECT_EQ(verdict(Fault::none, line, fill, target), "") << name_of(fill);
  EXPECT_NE(verdict(Fault::truncates_tf32, line, Fill::positive, target), "");
  EXPECT_NE(verdict(Fault::coarse_operands, line, Fill::positive, target), "");
}

TEST(Judge, SampledProblemsAreStillScannedForHoles) {
  const auto target = cpu_target(2);
  JudgeOptions options;
  options.seed = 3;
  options.all_products = 10;  // everything is large
  const core::Problem p = problem("n1 ci2 co64 l4000 k3 s1 p0 f32");
  auto made = Case::make(p, Fill::uniform, *target, options);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made.value()->sampled);
  EXPECT_LT(made.value()->truth.count(), p.y_elements());
  EXPECT_EQ(judge(*made.value(), {"", &faulty(Fault::none)}).failure, "");
  EXPECT_NE(judge(*made.value(), {"", &faulty(Fault::unwritten)}).failure, "");
  EXPECT_NE(judge(*made.value(), {"", &faulty(Fault::wrong_element)}).failure, "") << "a corner is sampled";
}

TEST(Judge, RefusesWhatDoesNotFitIntoMemory) {
  const auto target = cpu_target(1, std::size_t{1} << 20);
  const auto verdicts = judge(problem("n1 ci64 co64 l100000 k3 s1 p0 f32"), "", *target, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_FALSE(verdicts[0].right);
  EXPECT_NE(verdicts[0].failure.find("not judged"), std::string::npos) << verdicts[0].failure;
}

TEST(Judge, SaysWhyAForcedKernelHasNoPlan) {
  const auto target = cpu_target(1);
  const auto verdicts = judge(problem("n1 ci4 co4 l9 k3 s1 p0 f32"), "nonsense", *target, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_NE(verdicts[0].failure.find("no such kernel"), std::string::npos) << verdicts[0].failure;
}

}  // namespace
}  // namespace tconv::judge::testing
