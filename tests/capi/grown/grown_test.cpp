// Compiled with tomorrow's header (one more field, `later`, in every struct) on today's library: what the
// library does not know may be there as long as it is zero.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tconv/tconv.hpp"

namespace {

const std::vector<float> kX = {1, 2, 3, 4, 5, 6, 7, 8}, kWeight = {1, 0, -1, 2, 1, 2}, kBias = {0.5f};
const std::vector<float> kY = {5.5f, 23.5f, 6.5f, 27.5f, 7.5f, 31.5f, 8.5f};

tconv::Problem layer() {
  return tconv::Problem::parse("n1 ci2 co1 l4 k3 s2 p1 bias f32");
}

TEST(Grown, TheHeaderIsTomorrows) {
  EXPECT_EQ(sizeof(tconv_problem), 168u);
  EXPECT_EQ(sizeof(tconv_plan_options), 64u);
  EXPECT_EQ(sizeof(tconv_arguments), 96u);
}

TEST(Grown, InitAndParseFillTheWholeStructAndStateItsSize) {
  tconv_problem problem;
  tconv_plan_options options;
  tconv_arguments arguments;
  std::memset(&problem, 0xa5, sizeof problem);
  std::memset(&options, 0xa5, sizeof options);
  std::memset(&arguments, 0xa5, sizeof arguments);
  EXPECT_EQ(tconv_problem_init(&problem), TCONV_OK);
  EXPECT_EQ(tconv_plan_options_init(&options), TCONV_OK);
  EXPECT_EQ(tconv_arguments_init(&arguments), TCONV_OK);
  EXPECT_EQ(problem.struct_size, sizeof problem);
  EXPECT_EQ(options.struct_size, sizeof options);
  EXPECT_EQ(arguments.struct_size, sizeof arguments);
  EXPECT_EQ(problem.later + options.later + arguments.later, 0);
  std::memset(&problem, 0xa5, sizeof problem);
  EXPECT_EQ(tconv_problem_parse("ci1 co1 l1 k1", &problem), TCONV_OK);
  EXPECT_EQ(problem.struct_size, sizeof problem);
  EXPECT_EQ(problem.later, 0);
}

TEST(Grown, ZeroInWhatTheLibraryDoesNotKnowIsTaken) {
  const tconv::Problem problem = layer();
  const tconv::Plan plan(problem);
  std::vector<float> y(kY.size());
  const tconv::Buffer workspace(plan.workspace_bytes(false));
  plan.run<float>({.x = kX, .weight = kWeight, .bias = kBias, .output = y}, workspace.span());
  EXPECT_EQ(y, kY);
  EXPECT_EQ(problem.text(), "n1 ci2 co1 l4 k3 s2 p1 bias f32");
}

// One bit in the first, and one in the last byte of the field.
TEST(Grown, AnythingElseInItIsRefusedInWords) {
  for (int byte : {0, 7}) {
    const int64_t set = int64_t{1} << (8 * byte);
    auto words = [&](const char* name, int size, int first) {
      return std::string(name) + "->struct_size is " + std::to_string(size) + ", and byte " +
             std::to_string(first + byte) +
             " is not 0: a field of a newer header is set that this library (" + tconv_version() + ", " +
             std::to_string(size - 8) + " bytes) does not know";
    };
    tconv::Problem problem = layer();
    problem.later = set;
    EXPECT_EQ(tconv_problem_check(&problem), TCONV_INVALID_ARGUMENT);
    EXPECT_EQ(tconv_last_error(), words("problem", 168, 160));
    problem.later = 0;
    tconv::PlanOptions options;
    options.later = set;
    tconv_plan* plan = nullptr;
    EXPECT_EQ(tconv_plan_create(&problem, &options, &plan), TCONV_INVALID_ARGUMENT);
    EXPECT_EQ(tconv_last_error(), words("options", 64, 56));
    tconv::Arguments arguments;
    arguments.later = set;
    const tconv::Plan good(problem);
    EXPECT_THROW(good.run(arguments), tconv::InvalidArgument);
    EXPECT_EQ(tconv_last_error(), words("arguments", 96, 88));
  }
}

}  // namespace
