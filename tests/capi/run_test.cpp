// Plans and runs through the C API: ownership, refusals by name, packed weights, executors, threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tconv/tconv.hpp"

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A layer with data, and its expected output by the formula in float64.
struct Layer {
  tconv::Problem problem;
  std::vector<float> x, weight, bias, expected;

  explicit Layer(const char* text) : problem(tconv::Problem::parse(text)) {
    auto small = [state = 12345u]() mutable {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(static_cast<int>(state >> 24) % 7 - 3);
    };
    for (int64_t i = 0; i < problem.x_elements(); ++i) x.push_back(small());
    for (int64_t i = 0; i < problem.weight_elements(); ++i) weight.push_back(small());
    for (int64_t i = 0; i < problem.cout && problem.has_bias; ++i) bias.push_back(small());
    scatter();
  }

  // By scattering, the other way round than the library's gather.
  void scatter() {
    const tconv::Problem& p = problem;
    const int64_t lout = p.output_length(), cin_g = p.cin / p.groups, cout_g = p.cout / p.groups;
    expected.assign(static_cast<std::size_t>(p.n * p.cout * lout), 0);
    for (int64_t n = 0; n < p.n; ++n)
      for (int64_t ci = 0; ci < p.cin; ++ci)
        for (int64_t c = 0; c < cout_g; ++c)
          for (int64_t i = 0; i < p.l; ++i)
            for (int64_t k = 0; k < p.k; ++k) {
              const int64_t o = i * p.stride - p.padding + k * p.dilation;
              if (o < 0 || o >= lout) continue;
              expected[(n * p.cout + ci / cin_g * cout_g + c) * lout + o] +=
                  x[(n * p.cin + ci) * p.l + i] * weight[(ci * cout_g + c) * p.k + k];
            }
    for (std::size_t i = 0; i < expected.size() && p.has_bias; ++i) {
      expected[i] += bias[i / static_cast<std::size_t>(lout) % static_cast<std::size_t>(p.cout)];
    }
  }
};

std::vector<float> run_raw(const Layer& layer, const tconv::Plan& plan) {
  std::vector<float> y(layer.expected.size(), kNaN);
  const tconv::Buffer workspace(plan.workspace_bytes(false));
  plan.run<float>({.x = layer.x, .weight = layer.weight, .bias = layer.bias, .output = y}, workspace.span());
  return y;
}

const char* const kLayers[] = {"n2 ci8 co16 l37 k4 s2 p1 bias f32", "n1 ci6 co6 l19 k5 s3 p2 op2 g6 f32",
                               "n3 ci3 co1 l50 k9 s4 p0 d2 bias f32", "n1 ci64 co48 l5 k16 s8 p4 f32"};

// Both gradients from one run, and each from a run of its own.
TEST(RunTest, TheGradientsOfWeightAndBias) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6}, dy = {1, 0, 2, -1, 3, 1, 1, 1};
  for (const char* bias : {" bias", " xbias"}) {
    const tconv::Problem both = tconv::Problem::parse(std::string("weight ci2 co2 l3 k2 f32") + bias);
    const bool of_x = both.grad_bias == TCONV_GRAD_BIAS_OF_X;
    const tconv::Plan plan(both), alone(tconv::Problem::parse("weight ci2 co2 l3 k2 f32"));
    EXPECT_EQ(plan.kernel().substr(0, alone.kernel().size()), alone.kernel());
    ASSERT_EQ(both.bias_elements(), 2);
    std::vector<float> together(8, kNaN), separate(8, kNaN), sums(2, kNaN);
    const tconv::Buffer workspace(plan.workspace_bytes(false));
    tconv::Arguments a;
    a.x = x.data(), a.grad_output = dy.data();
    a.output = together.data(), a.grad_bias = sums.data();
    a.workspace = workspace.data(), a.workspace_bytes = workspace.size();
    plan.run(a);
    a.output = separate.data(), a.grad_bias = nullptr;
    alone.run(a);
    EXPECT_EQ(together, separate);
    EXPECT_EQ(sums, of_x ? (std::vector<float>{6, 15}) : (std::vector<float>{2, 6})) << bias;
  }
}

TEST(RunTest, RawAndPackedWeightsGiveTheFormulasNumbers) {
  for (const char* text : kLayers) {
    const Layer layer(text);
    const tconv::Plan plan(layer.problem);
    EXPECT_EQ(run_raw(layer, plan), layer.expected) << text;
    std::vector<float> raw = layer.weight;
    const tconv::PackedWeights packed(plan, raw.data());
    std::fill(raw.begin(), raw.end(), kNaN);  // not needed any more
    const tconv::Buffer workspace(plan.workspace_bytes(true));
    std::vector<float> y(layer.expected.size(), kNaN);
    plan.run<float>({.x = layer.x, .packed = packed, .bias = layer.bias, .output = y}, workspace.span());
    EXPECT_EQ(y, layer.expected) << text;
    std::fill(y.begin(), y.end(), kNaN);
    plan.run<float>({.x = layer.x, .packed = packed.span(), .bias = layer.bias, .output = y},
                    workspace.span());
    EXPECT_EQ(y, layer.expected) << text;
  }
}

TEST(RunTest, OnePlanFromManyThreads) {
  const Layer layer(kLayers[0]);
  const tconv::Plan plan(layer.problem);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) EXPECT_EQ(run_raw(layer, plan), layer.expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RunTest, CallersExecutor) {
  struct Count {
    int64_t tasks = 0;
  } count;
  tconv::PlanOptions options;
  options.threads = 3;
  options.executor_context = &count;
  options.parallel_for = [](void* context, int64_t tasks, tconv_task task, void* task_context) {
    for (int64_t i = tasks - 1; i >= 0; --i) task(task_context, i, static_cast<int32_t>(i % 3));  // backwards
    static_cast<Count*>(context)->tasks += tasks;
  };
  const Layer layer("n4 ci64 co64 l700 k4 s2 p1 bias f32");
  EXPECT_EQ(run_raw(layer, tconv::Plan(layer.problem, options)), layer.expected);
  EXPECT_GT(count.tasks, 1);
}

// One gradient, with raw weights and a workspace as large as the plan says.
std::vector<float> gradient(const tconv::Problem& problem, tconv_arguments a) {
  const tconv::Plan plan(problem);
  const tconv::Buffer workspace(plan.workspace_bytes(false));
  std::vector<float> output(static_cast<std::size_t>(problem.output_elements()), kNaN);
  a.output = output.data();
  a.workspace = workspace.data();
  a.workspace_bytes = workspace.size();
  EXPECT_NO_THROW(plan.run(a)) << problem.text();
  return output;
}

TEST(RunTest, GradientsWork) {
  // sum(y) has gradient one everywhere: the bias gradient is n*lout, the input gradient a sum of taps.
  auto problem = tconv::Problem::parse("gb n2 ci1 co2 l5 k3 s2 p0 f32");
  const auto lout = static_cast<std::size_t>(problem.output_length());
  const std::vector<float> ones(2 * 2 * lout, 1.0f), weight = {1, 2, 4, 8, 16, 32};
  tconv::Arguments a;
  a.grad_output = ones.data();
  EXPECT_EQ(gradient(problem, a), std::vector<float>(2, static_cast<float>(2 * lout)));
  problem.operation = TCONV_GRAD_INPUT;
  a.weight = weight.data();
  EXPECT_EQ(gradient(problem, a), std::vector<float>(10, 63.0f));
}

TEST(RunTest, EmptyOutputsNeedNothing) {
  for (const char* text : {"n0 ci8 co8 l30 k4 s2 p1 bias f32", "n3 ci8 co8 l1 k2 s1 p1 bias f32",
                           "n0 ci64 co64 l9 k4 f16", "gx n0 ci8 co8 l30 k4 s2 p1 f32",
                           "n0 ci6 co6 l9 k4 s2 p1 g6 bias f64", "n0 ci8 co8 l30 k4 xs500,40,1 f32"}) {
    const tconv::Problem problem = tconv::Problem::parse(text);
    ASSERT_EQ(problem.output_elements(), 0) << text;
    const tconv::Plan plan(problem);
    EXPECT_EQ(plan.workspace_bytes(false), 0u) << text;
    EXPECT_EQ(plan.workspace_bytes(true), 0u) << text;
    EXPECT_EQ(tconv_run(plan.get(),
                        [] {
                          static const tconv::Arguments nothing;
                          return &nothing;
                        }()),
              TCONV_OK)
        << text << ": " << tconv_last_error();
    if (problem.operation == TCONV_FORWARD && problem.dtype == TCONV_F32) {
      EXPECT_NO_THROW(plan.run(tconv::Forward<float>{}, {})) << text;
    }
  }
}

// The weight's gradient over no samples is zeros: the output is not empty, but no operand has elements.
TEST(RunTest, GradientsOverNoSamplesReadNothing) {
  for (const char* text : {"gw n0 ci2 co3 l5 k3 s2 p0 f32", "gb n0 ci2 co3 l5 k3 s2 p0 f32"}) {
    const std::vector<float> output = gradient(tconv::Problem::parse(text), tconv::Arguments());
    EXPECT_FALSE(output.empty());
    EXPECT_EQ(output, std::vector<float>(output.size(), 0.0f)) << text;
  }
}

// What C11's aligned_alloc(256, bytes) requires, for every kernel.
TEST(RunTest, SizesOfBuffersAreMultiplesOfTheirAlignment) {
  int packing = 0, working = 0;
  for (const char* text : {"n2 ci8 co16 l37 k4 s2 p1 bias f32", "n1 ci6 co6 l19 k5 s3 p2 op2 g6 f32",
                           "n3 ci3 co1 l50 k9 s4 p0 d2 bias f64", "n1 ci64 co48 l5 k16 s8 p4 f16",
                           "n1 ci7 co9 l333 k11 s3 p4 bf16", "n1 ci33 co1 l999 k301 s3 p4 f32",
                           "gx n1 ci7 co9 l33 k11 s3 p4 f32", "gw n1 ci7 co9 l33 k11 s3 p4 f32"}) {
    const tconv::Problem problem = tconv::Problem::parse(text);
    for (int32_t i = 0; tconv_kernel_name(i) != nullptr; ++i) {
      for (const char* device : {static_cast<const char*>(nullptr), "h200", "t4"}) {
        tconv::PlanOptions options;
        options.force_kernel = tconv_kernel_name(i);
        options.device = device == nullptr ? TCONV_CPU : TCONV_CUDA;
        options.device_name = device;
        tconv_plan* plan = nullptr;
        if (tconv_plan_create(&problem, &options, &plan) != TCONV_OK) continue;
        for (std::size_t bytes : {tconv_plan_packed_bytes(plan), tconv_plan_workspace_bytes(plan, 0),
                                  tconv_plan_workspace_bytes(plan, 1)}) {
          EXPECT_EQ(bytes % TCONV_BUFFER_ALIGNMENT, 0u) << text << " " << options.force_kernel;
        }
        packing += tconv_plan_packed_bytes(plan) > 0;
        working += tconv_plan_workspace_bytes(plan, 1) > 0;
        tconv_plan_destroy(plan);
      }
    }
  }
  EXPECT_GT(packing, 3);
  EXPECT_GT(working, 3);
}

TEST(RefusalTest, SpansOfTheWrongSize) {
  const Layer layer(kLayers[0]);
  const tconv::Plan plan(layer.problem);
  std::vector<float> y(layer.expected.size());
  const tconv::Buffer workspace(plan.workspace_bytes(false));
  std::vector<float> longer = layer.x;
  longer.push_back(0);
  EXPECT_THROW(plan.run<float>({.x = longer, .weight = layer.weight, .bias = layer.bias, .output = y},
                               workspace.span()),
               tconv::InvalidArgument);
  EXPECT_THROW(plan.run<float>({.x = layer.x, .weight = layer.weight, .output = y}, workspace.span()),
               tconv::InvalidArgument);
  std::vector<double> wide(y.size());
  EXPECT_THROW(plan.run<double>({.output = wide}, workspace.span()), tconv::InvalidArgument);
}

TEST(RefusalTest, Plans) {
  const auto problem = tconv::Problem::parse(kLayers[0]);
  auto refused = [&](auto&& set) {
    tconv::PlanOptions options;
    set(options);
    try {
      tconv::Plan plan(problem, options);
    } catch (const tconv::Error& e) {
      return std::string(e.what());
    }
    return std::string("not refused");
  };
  using O = tconv::PlanOptions;
  EXPECT_NE(refused([](O& o) { o.force_kernel = "nonsense"; }).find("force_kernel is 'nonsense'"),
            std::string::npos);
  EXPECT_NE(refused([](O& o) { o.threads = -1; }).find("threads is -1"), std::string::npos);
  EXPECT_NE(refused([](O& o) { o.device = 7; }).find("device is 7"), std::string::npos);
  EXPECT_NE(refused([](O& o) { o.device_name = "h200"; }).find("device_name"), std::string::npos);
  EXPECT_EQ(tconv_plan_create(&problem, nullptr, nullptr), TCONV_INVALID_ARGUMENT);
  tconv_plan* plan = nullptr;
  EXPECT_EQ(tconv_plan_create(nullptr, nullptr, &plan), TCONV_INVALID_ARGUMENT);
  EXPECT_EQ(plan, nullptr);
  EXPECT_THROW(tconv::Plan(tconv::Problem()), tconv::InvalidProblem);
}

TEST(KernelListTest, ReferenceIsLast) {
  int32_t count = 0;
  while (tconv_kernel_name(count) != nullptr) ++count;
  ASSERT_GT(count, 0);
  EXPECT_STREQ(tconv_kernel_name(count - 1), "reference");
  EXPECT_EQ(tconv_kernel_name(-1), nullptr);
}

TEST(PlanTest, ForcedKernelIsTaken) {
  tconv::PlanOptions options;
  options.force_kernel = "reference";
  const Layer layer(kLayers[0]);
  const tconv::Plan plan(layer.problem, options);
  EXPECT_EQ(plan.kernel(), "reference");
  EXPECT_NE(plan.explain().find("forced"), std::string::npos);
  EXPECT_EQ(run_raw(layer, plan), layer.expected);
}

TEST(PlanTest, NamedGpuIsPlannedOrRefusedInWords) {
  tconv::PlanOptions options;
  options.device = TCONV_CUDA;
  options.device_name = "gtx9";
  const auto problem = tconv::Problem::parse(kLayers[0]);
  try {
    tconv::Plan plan(problem, options);
    FAIL() << "not refused";
  } catch (const tconv::InvalidArgument& e) {
    EXPECT_NE(std::string(e.what()).find("device 'gtx9' is not known"), std::string::npos);
  }
}

}  // namespace
