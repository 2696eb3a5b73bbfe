// tconv/cache.h: the options of a cache are those of its plans.
#include "tconv/cache.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "tconv/tconv.hpp"

namespace {

struct Cache {
  explicit Cache(const tconv_plan_options* options) {
    EXPECT_EQ(tconv_cache_create(options, 0, &cache), TCONV_OK);
  }
  ~Cache() { tconv_cache_destroy(cache); }
  // The status of a plan, and its kernel or the message.
  tconv_status get(const tconv_problem& problem, std::string& words) const {
    tconv_cached_plan* plan = nullptr;
    const tconv_status status = tconv_cache_get(cache, &problem, &plan);
    words = status == TCONV_OK ? tconv_plan_kernel(tconv_cached_plan_of(plan)) : tconv_last_error();
    tconv_cached_plan_release(plan);
    return status;
  }
  tconv_cache* cache = nullptr;
};

tconv::Problem problem() {
  tconv::Problem p;
  p.cin = p.cout = 8, p.l = 100, p.k = 4, p.stride = 2;
  return p;
}

TEST(Cache, ForcesTheKernelOfItsOptionsWhoseTextItOwns) {
  std::string words, name = "reference";
  tconv::PlanOptions options;
  options.force_kernel = name.c_str();
  const Cache cache(&options);
  name.assign(name.size(), 'x');
  EXPECT_EQ(cache.get(problem(), words), TCONV_OK) << words;
  EXPECT_EQ(words, "reference");
}

TEST(Cache, RefusesAsAPlanWould) {
  std::string words;
  tconv::PlanOptions unknown, invariant, unsized;
  unknown.force_kernel = "no.such.kernel";
  EXPECT_NE(Cache(&unknown).get(problem(), words), TCONV_OK);
  EXPECT_NE(words.find("no.such.kernel"), std::string::npos) << words;
  invariant.batch_invariant = 7;
  EXPECT_EQ(Cache(&invariant).get(problem(), words), TCONV_INVALID_ARGUMENT);
  EXPECT_NE(words.find("batch_invariant is 7"), std::string::npos) << words;
  unsized.struct_size = 0;
  EXPECT_EQ(Cache(&unsized).get(problem(), words), TCONV_INVALID_ARGUMENT) << words;
}

TEST(Cache, ReadsNoMoreOfItsOptionsThanTheyHave) {
  // An older header's, whose last field is `threads`; what lies behind is not to be read.
  tconv::PlanOptions options;
  options.struct_size = offsetof(tconv_plan_options, batch_invariant);
  options.batch_invariant = 7;
  std::string words;
  const Cache cache(&options);
  tconv_plan* plan = nullptr;
  const tconv::Problem p = problem();
  const tconv_status expected = tconv_plan_create(&p, &options, &plan);
  tconv_plan_destroy(plan);
  EXPECT_EQ(cache.get(p, words), expected) << words;
}

TEST(Cache, FindsTheSamePlanAgain) {
  const Cache cache(nullptr);
  tconv_cached_plan *a = nullptr, *b = nullptr;
  const tconv::Problem p = problem();
  ASSERT_EQ(tconv_cache_get(cache.cache, &p, &a), TCONV_OK);
  ASSERT_EQ(tconv_cache_get(cache.cache, &p, &b), TCONV_OK);
  EXPECT_EQ(tconv_cached_plan_of(a), tconv_cached_plan_of(b));
  tconv_cached_plan_release(a);
  tconv_cached_plan_release(b);
}

}  // namespace
