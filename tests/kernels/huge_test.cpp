// Tensors of more than 2^31 elements: offsets are 64-bit. Strides of 0 keep x small; the output is what it
// is, 4 GiB of float16 here. A machine without that much free memory skips, and says so.
#include <gtest/gtest.h>
#include <unistd.h>

#include "judge/draw.hpp"
#include "judge/judge.hpp"

namespace tconv::judge {
namespace {

void judge_huge(const char* line) {
  const core::Problem p = core::parse(line).value();
  ASSERT_GT(std::max(p.output_elements(), p.x_elements()), int64_t{1} << 31);
  const auto target = cpu_target(2);
  // Beyond what memory_needed counts, room for the rest of the machine.
  const std::size_t needed = memory_needed(p, {}) + (std::size_t{1} << 30);
  if (needed > 2 * target->memory_limit()) {
    GTEST_SKIP() << "needs " << (needed >> 20) << " MiB of free memory, " << (target->memory_limit() >> 19)
                 << " are free";
  }
  const auto roomy = cpu_target(2, needed);
  JudgeOptions options;
  options.fills = {Fill::uniform};
  for (const Verdict& v : judge(p, "", *roomy, options)) {
    EXPECT_TRUE(v.right) << line << ": " << v.kernel << ": " << v.failure;
    EXPECT_TRUE(v.sampled);
    EXPECT_NE(v.kernel, "reference") << "a fast kernel is what has to hold";
  }
}

TEST(Huge, OneRowOfOutputs) {
  judge_huge("n1 ci1 co1 l1073741900 k2 s2 p0 xs0,0,0 f16");
}

TEST(Huge, ManyChannels) {
  judge_huge("n2 ci2 co1024 l1048700 k1 s1 p0 xs0,1048700,1 f16");
}

}  // namespace
}  // namespace tconv::judge
