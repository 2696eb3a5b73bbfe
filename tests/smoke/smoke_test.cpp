// The problems of tests/shapes/smoke.txt, one of every kind, on every kernel with every kind of data: what
// the sanitizers see.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "cpu/simd/dispatch.hpp"
#include "judge/draw.hpp"
#include "judge/judge.hpp"

namespace tconv::judge {
namespace {

TEST(Smoke, EveryKernelOnEveryKindOfProblem) {
  std::ifstream file(TCONV_SOURCE_DIR "/tests/shapes/smoke.txt");
  const auto target = cpu_target(2);
  JudgeOptions options;
  options.fills = {Fill::integers, Fill::uniform, Fill::positive, Fill::spread, Fill::special};
  int problems = 0;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    if (line.empty()) continue;
    const auto parsed = core::parse(line);
    ASSERT_TRUE(parsed.ok()) << line << ": " << parsed.status().message();
    ++problems;
    for (const std::string& simd : cpu::simd::target_names()) {
      ASSERT_TRUE(cpu::simd::choose_target(simd).ok());
      for (const Verdict& v : judge(parsed.value(), "all", *target, options)) {
        EXPECT_TRUE(v.right) << simd << ": " << line << ": " << v.kernel << ": " << v.failure;
      }
    }
    ASSERT_TRUE(cpu::simd::choose_target("").ok());
  }
  EXPECT_GT(problems, 20);
}

TEST(Smoke, RandomProblems) {
  const auto target = cpu_target(2);
  for (uint64_t i = 0; i < 300; ++i) {
    Rng rng(21, i);
    JudgeOptions options;
    options.seed = i;
    const core::Problem problem = draw_valid(rng, {.typical = 20'000});
    for (const Verdict& v : judge(problem, "all", *target, options)) {
      EXPECT_TRUE(v.right) << text(problem) << ": " << v.kernel << ": " << v.failure;
    }
  }
}

}  // namespace
}  // namespace tconv::judge
