// The host runs out of memory at each allocation in turn: no exception leaves the library, the status says
// so, and the words are there although nothing can be allocated for them.
#include <gtest/gtest.h>

#include <string>

#include "capi/allocations.hpp"
#include "tconv/tconv.hpp"

namespace {

using tconv::test::t_left;
using tconv::test::t_once;

// Calls with 0, 1, 2, ... allocations until it succeeds; returns how many it needs.
template <class Call>
int64_t sweep(Call&& call) {
  for (int64_t allowed = 0; allowed < 100'000; ++allowed) {
    t_left = allowed;
    const tconv_status status = call();
    t_left = -1;
    if (status == TCONV_OK) return allowed;
    if (status != TCONV_OUT_OF_MEMORY || std::string(tconv_last_error()) != "the host is out of memory") {
      ADD_FAILURE() << "allocation " << allowed << ": " << tconv_status_name(status) << ": "
                    << tconv_last_error();
      return -1;
    }
  }
  return -1;
}

TEST(MemoryTest, EveryAllocationOfAPlanMayFail) {
  for (const char* text : {"n2 ci8 co16 l37 k4 s2 p1 bias f32", "n1 ci6 co6 l19 k5 s3 p2 op2 g6 f32",
                           "n1 ci64 co64 l700 k4 s2 p1 f16", "n1 ci33 co1 l999 k301 s3 p4 f32",
                           "gw n1 ci7 co9 l33 k11 s3 p4 f32"}) {
    tconv_problem problem;
    ASSERT_EQ(tconv_problem_parse(text, &problem), TCONV_OK);
    tconv_plan* plan = nullptr;
    tconv_plan_options options;
    tconv_plan_options_init(&options);
    options.threads = 2;
    ASSERT_EQ(tconv_plan_create(&problem, &options, &plan), TCONV_OK);  // its first use of what is made once
    tconv_plan_destroy(plan);
    EXPECT_GT(sweep([&] {
                plan = nullptr;
                const tconv_status status = tconv_plan_create(&problem, &options, &plan);
                EXPECT_EQ(plan == nullptr, status != TCONV_OK);
                return status;
              }),
              3)
        << text;
    tconv_plan_destroy(plan);
  }
}

TEST(MemoryTest, EveryAllocationOfATextMayFail) {
  tconv_problem problem;
  EXPECT_GT(
      sweep([&] { return tconv_problem_parse("n2 ci8 co16 l37 k4 s2 p1 bias xs100,10,1 f32", &problem); }),
      0);
  std::size_t length = 0;
  EXPECT_GT(sweep([&] { return tconv_problem_text(&problem, nullptr, 0, &length); }), 0);
}

// A run allocates nothing, so none can fail.
TEST(MemoryTest, ARunNeedsNoMemory) {
  const auto problem = tconv::Problem::parse("n1 ci16 co16 l300 k4 s2 p1 bias f32");
  tconv::PlanOptions options;
  options.threads = 1;
  const tconv::Plan plan(problem, options);
  const std::vector<float> x(16 * 300), weight(16 * 16 * 4), bias(16);
  std::vector<float> y(static_cast<std::size_t>(problem.output_elements()));
  const tconv::Buffer workspace(plan.workspace_bytes(false));
  tconv::Arguments a;
  a.x = x.data(), a.weight = weight.data(), a.bias = bias.data(), a.output = y.data();
  a.workspace = workspace.data(), a.workspace_bytes = workspace.size();
  EXPECT_EQ(sweep([&] { return tconv_run(plan.get(), &a); }), 0) << tconv_last_error();
}

// A refusal whose message cannot be kept has its status all the same.
TEST(MemoryTest, RefusalsWithoutMemoryForTheirWords) {
  tconv_problem problem;
  ASSERT_EQ(tconv_problem_parse("n1 ci4 co6 l5 k3 g4", &problem), TCONV_OK);
  for (int64_t allowed = 0; allowed < 20; ++allowed) {
    t_left = allowed;
    const tconv_status status = tconv_problem_check(&problem);
    t_left = -1;
    EXPECT_NE(status, TCONV_OK);
    EXPECT_GT(std::string(tconv_last_error()).size(), 10u);
  }
}

TEST(MemoryTest, TheExceptionOfTconvHppHasTheWords) {
  const std::string text = "n1 ci16 co16 l300 k4 s2 p1 bias f32";
  int with_words = 0;
  t_once = true;
  for (int64_t allowed = 0; allowed < 10'000; ++allowed) {
    t_left = allowed;
    try {
      const tconv::Plan plan(tconv::Problem::parse(text));
      if (t_left > 0) break;  // nothing failed any more
    } catch (const tconv::OutOfMemory& e) {
      EXPECT_STREQ(e.what(), "the host is out of memory");
      EXPECT_EQ(e.status(), TCONV_OUT_OF_MEMORY);
      ++with_words;
    } catch (const std::bad_alloc&) {  // of the header's own strings
    }
  }
  t_once = false;
  t_left = -1;
  EXPECT_GT(with_words, 3);
}

}  // namespace
