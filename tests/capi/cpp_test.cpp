// What tconv.hpp adds to the C API: sizes of spans, devices, exceptions.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "tconv/tconv.hpp"

namespace {

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const tconv::InvalidArgument& e) {
    return e.what();
  }
  return "not refused";
}

// x of one sample and two channels of four positions, laid out as the problem's steps say.
struct Strided {
  explicit Strided(const char* text)
      : problem(tconv::Problem::parse(text)),
        plan(problem),
        workspace(plan.workspace_bytes(false)),
        y(static_cast<std::size_t>(problem.output_elements())) {}
  void run(std::size_t elements) {
    std::vector<float> x(elements);  // of exactly this size: an address sanitizer sees a read behind it
    for (int c = 0; c < 2; ++c) {
      for (int i = 0; i < 4; ++i) {
        const auto at = static_cast<std::size_t>(c * problem.x_stride[1] + i * problem.x_stride[2]);
        if (at < elements) x[at] = static_cast<float>(4 * c + i + 1);
      }
    }
    const std::vector<float> weight = {1, 0, -1, 2, 1, 2}, bias = {0.5f};
    plan.run<float>({.x = x, .weight = weight, .bias = bias, .output = y}, workspace.span());
  }
  tconv::Problem problem;
  tconv::Plan plan;
  tconv::Buffer workspace;
  std::vector<float> y;
};

TEST(CppTest, Conv1dFromItsOwnNumbers) {
  tconv::Problem call;
  call.cin = 2, call.cout = 1, call.l = 4, call.k = 3, call.padding = 1, call.has_bias = 1;
  const tconv::Plan plan(tconv::Problem::conv1d(call));
  EXPECT_EQ(plan.problem().text(), "strided n1 ci1 co2 l4 k3 s1 p1 bias f32");
  const tconv::Buffer workspace(plan.workspace_bytes(false));
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8}, weight = {1, 0, -1, 2, 1, 2}, bias = {0.5f};
  std::vector<float> y(4);
  plan.run<float>({.x = x, .weight = weight, .bias = bias, .output = y}, workspace.span());
  EXPECT_EQ(y, (std::vector<float>{15.5f, 28.5f, 33.5f, 25.5f}));
}

TEST(CppTest, StridedXMayNotEndBeforeItsLastElement) {
  const std::vector<float> expected = {5.5f, 23.5f, 6.5f, 27.5f, 7.5f, 31.5f, 8.5f};
  const struct {
    const char* text;
    std::size_t span;
  } cases[] = {{"n1 ci2 co1 l4 k3 s2 p1 bias xs0,10,3 f32", 20},
               {"n1 ci2 co1 l4 k3 s2 p1 bias xs100,1,2 f32", 8},
               {"n1 ci2 co1 l4 k3 s2 p1 bias xs8,4,1 f32", 8}};
  for (const auto& c : cases) {
    Strided layer(c.text);
    EXPECT_EQ(layer.problem.x_elements(), static_cast<int64_t>(c.span)) << c.text;
    layer.run(c.span);
    EXPECT_EQ(layer.y, expected) << c.text;
    layer.run(c.span + 5);
    EXPECT_EQ(layer.y, expected) << c.text;
    const std::string words =
        "x has " + std::to_string(c.span - 1) + " elements: the problem needs " + std::to_string(c.span);
    EXPECT_EQ(refusal([&] { layer.run(c.span - 1); }), words);
    EXPECT_EQ(refusal([&] { layer.run(0); }),
              "x has 0 elements: the problem needs " + std::to_string(c.span));
  }
}

TEST(CppTest, SizesComeCheckedFromTheLibrary) {
  const auto problem = tconv::Problem::parse("n2 ci4 co6 l5 k3 s2 p0 g2 bias f32");
  EXPECT_EQ(problem.x_elements(), 40);
  EXPECT_EQ(problem.weight_elements(), 36);
  EXPECT_EQ(problem.bias_elements(), 6);
  EXPECT_EQ(problem.y_elements(), 132);
  EXPECT_EQ(problem.output_elements(), 132);
  EXPECT_EQ(tconv::Problem::parse("gx n2 ci4 co6 l5 k3 s2 p0 g2 f32").output_elements(), 40);
  using P = tconv::Problem;
  using Size = int64_t (P::*)() const;
  const Size sizes[] = {&P::x_elements, &P::weight_elements, &P::bias_elements, &P::y_elements,
                        &P::output_elements};
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max() / 2;
  for (const Size size : sizes) {
    P no_groups = problem;
    no_groups.groups = 0;
    EXPECT_THROW((no_groups.*size)(), tconv::InvalidProblem);
    P uneven = problem;
    uneven.groups = 5;
    EXPECT_THROW((uneven.*size)(), tconv::InvalidProblem);
    P negative = problem;
    negative.n = -1;
    EXPECT_THROW((negative.*size)(), tconv::InvalidProblem);
    P overflowing = problem;
    overflowing.l = overflowing.n = kHuge;
    EXPECT_THROW((overflowing.*size)(), tconv::InvalidProblem);
    P far = problem;
    far.x_contiguous = 0;
    far.x_stride[0] = far.x_stride[1] = kHuge;
    EXPECT_THROW((far.*size)(), tconv::InvalidProblem);
  }
}

TEST(CppTest, HostSpansDoNotGoToCudaPlans) {
  tconv::PlanOptions options;
  options.device = TCONV_CUDA;
  options.device_name = "h200";
  const auto problem = tconv::Problem::parse("n1 ci2 co1 l4 k3 s2 p1 bias f32");
  tconv_plan* made = nullptr;
  if (tconv_plan_create(&problem, &options, &made) != TCONV_OK) GTEST_SKIP() << tconv_last_error();
  tconv_plan_destroy(made);
  const tconv::Plan plan(problem, options);
  const std::vector<float> x(8), weight(6), bias(1);
  std::vector<float> y(7);
  EXPECT_EQ(refusal([&] { plan.run<float>({.x = x, .weight = weight, .bias = bias, .output = y}, {}); }),
            "the plan is for CUDA: run(tconv_arguments) takes device pointers");
}

TEST(CppTest, SpansOfPackedWeightsThatAreTooShort) {
  const auto problem = tconv::Problem::parse("n1 ci64 co64 l700 k4 s2 p1 f32");
  const tconv::Plan plan(problem);
  ASSERT_GT(plan.packed_bytes(), 0u);
  const tconv::Buffer packed(plan.packed_bytes()), workspace(plan.workspace_bytes(true));
  const std::vector<float> x(64 * 700);
  std::vector<float> y(static_cast<std::size_t>(problem.output_elements()));
  const std::size_t bytes = packed.size();
  EXPECT_EQ(refusal([&] {
              plan.run<float>({.x = x, .packed = packed.span().first(bytes - 1), .output = y},
                              workspace.span());
            }),
            "packed has " + std::to_string(bytes - 1) + " bytes: the plan needs " + std::to_string(bytes));
}

TEST(CppTest, PackedWeightsOfAnotherLayoutAreRefused) {
  const auto wide = tconv::Problem::parse("n1 ci64 co64 l700 k4 s2 p1 f32");
  const auto depthwise = tconv::Problem::parse("n1 ci64 co64 l700 k4 s2 p1 g64 f32");
  const tconv::Plan plan(wide), other(depthwise);
  const std::vector<float> weight(static_cast<std::size_t>(wide.weight_elements()));
  const tconv::PackedWeights packed(plan, weight.data()), copied(other, weight.data());
  EXPECT_TRUE(packed.serve(plan) && copied.serve(other));
  EXPECT_FALSE(packed.serve(other) || copied.serve(plan));
  const std::vector<float> x(64 * 700);
  std::vector<float> y(static_cast<std::size_t>(wide.output_elements()));
  EXPECT_EQ(
      refusal([&] { plan.run<float>({.x = x, .packed = copied, .output = y}, {}); }),
      "packed has the layout '" + copied.key() + "': the plan needs '" + std::string(plan.pack_key()) + "'");
}

// One of them is enough to catch it by: as std::exception it must not be ambiguous.
TEST(CppTest, OutOfMemoryIsABadAllocWithWords) {
  static_assert(std::is_convertible_v<const tconv::OutOfMemory*, const std::exception*>);
  static_assert(std::is_convertible_v<const tconv::OutOfMemory*, const std::bad_alloc*>);
  static_assert(std::is_nothrow_copy_constructible_v<tconv::OutOfMemory>);
  const tconv::Plan plan(tconv::Problem::parse("ci1 co1 l1 k1"));
  EXPECT_EQ(tconv_run(plan.get(), nullptr), TCONV_INVALID_ARGUMENT);
  try {
    tconv::check(TCONV_OUT_OF_MEMORY);
    FAIL() << "not thrown";
  } catch (const std::bad_alloc& e) {
    EXPECT_STREQ(e.what(), "arguments is null") << "the library's last words";
  }
}

}  // namespace
