// Every entry point with every kind of wrong argument: each refusal names the argument.
#include <gtest/gtest.h>

#include <climits>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tconv/tconv.hpp"

namespace {

struct Refusal {
  tconv_status status;
  std::string words;  // the message starts with them
};

void expect(const Refusal& refusal, tconv_status status) {
  EXPECT_EQ(status, refusal.status) << refusal.words;
  EXPECT_EQ(std::string(tconv_last_error()).rfind(refusal.words, 0), 0u)
      << "'" << tconv_last_error() << "' should start with '" << refusal.words << "'";
}

// Everything that takes a problem.
const std::vector<std::function<tconv_status(const tconv_problem*)>>& takers() {
  static const std::vector<std::function<tconv_status(const tconv_problem*)>> all = {
      [](const tconv_problem* p) { return tconv_problem_check(p); },
      [](const tconv_problem* p) {
        int64_t lout = 0;
        return tconv_output_length(p, &lout);
      },
      [](const tconv_problem* p) {
        int64_t elements = 0;
        return tconv_tensor_elements(p, TCONV_WEIGHT, &elements);
      },
      [](const tconv_problem* p) {
        tconv_plan* plan = nullptr;
        const tconv_status status = tconv_plan_create(p, nullptr, &plan);
        EXPECT_EQ(plan, nullptr);
        return status;
      },
  };
  return all;
}

TEST(EntryTest, FieldsOfAProblemThatAreOutOfRange) {
  const struct {
    std::function<void(tconv_problem&)> spoil;
    Refusal refusal;
    bool text;  // the text form cannot say it either
  } cases[] = {
      {[](auto& p) { p.operation = 5; }, {TCONV_INVALID_PROBLEM, "operation is 5: must be 0 to 4"}, true},
      {[](auto& p) { p.operation = -1; }, {TCONV_INVALID_PROBLEM, "operation is -1: must be 0 to 4"}, true},
      {[](auto& p) { p.dtype = 4; }, {TCONV_INVALID_PROBLEM, "dtype is 4: must be 0 to 3"}, true},
      {[](auto& p) { p.dtype = INT32_MIN; }, {TCONV_INVALID_PROBLEM, "dtype is -2147483648: must be"}, true},
      {[](auto& p) { p.precision = 2; }, {TCONV_INVALID_PROBLEM, "precision is 2: must be 0 to 1"}, true},
      {[](auto& p) { p.precision = -1; }, {TCONV_INVALID_PROBLEM, "precision is -1: must be 0 to 1"}, true},
      {[](auto& p) { p.has_bias = 2; }, {TCONV_INVALID_ARGUMENT, "has_bias is 2: must be 0 or 1"}, true},
      {[](auto& p) { p.x_contiguous = -1; }, {TCONV_INVALID_ARGUMENT, "x_contiguous is -1: must be"}, true},
      {[](auto& p) { p.n = -1; }, {TCONV_INVALID_PROBLEM, "n is -1: must be 0 or more"}, false},
      {[](auto& p) { p.cin = 0; }, {TCONV_INVALID_PROBLEM, "cin is 0: must be 1 or more"}, false},
      {[](auto& p) { p.cout = -3; }, {TCONV_INVALID_PROBLEM, "cout is -3: must be 1 or more"}, false},
      {[](auto& p) { p.l = INT64_MIN; }, {TCONV_INVALID_PROBLEM, "l is -9223372036854775808: must"}, false},
      {[](auto& p) { p.k = 0; }, {TCONV_INVALID_PROBLEM, "k is 0: must be 1 or more"}, false},
      {[](auto& p) { p.stride = 0; }, {TCONV_INVALID_PROBLEM, "stride is 0: must be 1 or more"}, false},
      {[](auto& p) { p.padding = -1; }, {TCONV_INVALID_PROBLEM, "padding is -1: must be 0 or more"}, false},
      {[](auto& p) { p.output_padding = -1; }, {TCONV_INVALID_PROBLEM, "output_padding is -1: must"}, false},
      {[](auto& p) { p.dilation = 0; }, {TCONV_INVALID_PROBLEM, "dilation is 0: must be 1 or more"}, false},
      {[](auto& p) { p.groups = 0; }, {TCONV_INVALID_PROBLEM, "groups is 0: must be 1 or more"}, false},
      {[](auto& p) { p.x_contiguous = 0, p.x_stride[1] = -4; },
       {TCONV_INVALID_PROBLEM, "x_stride[1] is -4: must be 0 or more"},
       false},
  };
  for (const auto& c : cases) {
    tconv::Problem problem = tconv::Problem::parse("n2 ci4 co6 l5 k3 s2 p0 bias f32");
    c.spoil(problem);
    for (const auto& take : takers()) expect(c.refusal, take(&problem));
    std::size_t length = 0;
    const tconv_status status = tconv_problem_text(&problem, nullptr, 0, &length);
    if (c.text) expect(c.refusal, status);
  }
}

TEST(EntryTest, NullProblemsAndResults) {
  const tconv::Problem problem = tconv::Problem::parse("ci1 co1 l1 k1");
  for (const auto& take : takers()) expect({TCONV_INVALID_ARGUMENT, "problem is null"}, take(nullptr));
  std::size_t length = 0;
  char text[64];
  expect({TCONV_INVALID_ARGUMENT, "problem is null"}, tconv_problem_text(nullptr, text, 64, &length));
  expect({TCONV_INVALID_ARGUMENT, "text is null"}, tconv_problem_text(&problem, nullptr, 64, &length));
  expect({TCONV_INVALID_ARGUMENT, "length is null"}, tconv_problem_text(&problem, nullptr, 0, nullptr));
  EXPECT_EQ(tconv_problem_text(&problem, text, 64, nullptr), TCONV_OK);
  expect({TCONV_INVALID_ARGUMENT, "lout is null"}, tconv_output_length(&problem, nullptr));
  expect({TCONV_INVALID_ARGUMENT, "elements is null"}, tconv_tensor_elements(&problem, TCONV_X, nullptr));
  expect({TCONV_INVALID_ARGUMENT, "plan is null"}, tconv_plan_create(&problem, nullptr, nullptr));
  expect({TCONV_INVALID_ARGUMENT, "text is null"}, tconv_problem_parse(nullptr, nullptr));
}

TEST(EntryTest, TensorsByNumber) {
  const tconv::Problem problem = tconv::Problem::parse("gw n2 ci4 co6 l5 k3 s2 p0 g2 bias f32");
  int64_t elements = -7;
  for (int32_t tensor : {-1, 5, INT32_MAX}) {
    expect({TCONV_INVALID_ARGUMENT, "tensor is " + std::to_string(tensor) + ": must be 0 to 4"},
           tconv_tensor_elements(&problem, tensor, &elements));
    EXPECT_EQ(elements, -7);
  }
  const int64_t expected[] = {2 * 4 * 5, 4 * 3 * 3, 6, 2 * 6 * 11, 4 * 3 * 3};
  for (int32_t tensor = TCONV_X; tensor <= TCONV_OUTPUT; ++tensor) {
    EXPECT_EQ(tconv_tensor_elements(&problem, tensor, &elements), TCONV_OK);
    EXPECT_EQ(elements, expected[tensor]) << tensor;
  }
}

TEST(EntryTest, OptionsThatAreOutOfRange) {
  const tconv::Problem problem = tconv::Problem::parse("ci1 co1 l1 k1");
  const struct {
    std::function<void(tconv_plan_options&)> spoil;
    const char* words;
  } cases[] = {
      {[](auto& o) { o.device = 2; }, "options->device is 2: must be 0 (cpu) or 1 (cuda)"},
      {[](auto& o) { o.device = -1; }, "options->device is -1: must be"},
      {[](auto& o) { o.device_index = -1; }, "options->device_index is -1: must be 0 or more"},
      {[](auto& o) { o.threads = -1; }, "options->threads is -1: must be 0 to 4096"},
      {[](auto& o) { o.threads = 4097; }, "options->threads is 4097: must be"},
      {[](auto& o) { o.batch_invariant = 2; }, "options->batch_invariant is 2: must be 0 or 1"},
      {[](auto& o) { o.force_kernel = "zebra"; },
       "force_kernel is 'zebra': no such kernel; the kernels are "},
      {[](auto& o) { o.device_name = "h200"; },
       "options->device_name is given: only device cuda has named devices"},
      {[](auto& o) { o.device = TCONV_CUDA, o.device_name = "zebra"; },
       "options->device_name: device 'zebra' is not known"},
  };
  for (const auto& c : cases) {
    tconv::PlanOptions options;
    c.spoil(options);
    tconv_plan* plan = nullptr;
    EXPECT_EQ(tconv_plan_create(&problem, &options, &plan), TCONV_INVALID_ARGUMENT) << c.words;
    EXPECT_EQ(plan, nullptr);
    EXPECT_NE(std::string(tconv_last_error()).find(c.words), std::string::npos) << tconv_last_error();
  }
}

TEST(EntryTest, NullPlans) {
  tconv_plan_destroy(nullptr);
  EXPECT_STREQ(tconv_plan_kernel(nullptr), "");
  EXPECT_STREQ(tconv_plan_explain(nullptr), "");
  EXPECT_STREQ(tconv_plan_pack_key(nullptr), "");
  EXPECT_EQ(tconv_plan_packed_bytes(nullptr), 0u);
  EXPECT_EQ(tconv_plan_workspace_bytes(nullptr, 0), 0u);
  const tconv::Arguments arguments;
  expect({TCONV_INVALID_ARGUMENT, "plan is null"}, tconv_run(nullptr, &arguments));
  float weight = 0;
  expect({TCONV_INVALID_ARGUMENT, "plan is null"}, tconv_pack(nullptr, &weight, &weight, 4, nullptr));
}

TEST(EntryTest, NumbersBeyondTheListsHaveNoNames) {
  EXPECT_EQ(tconv_kernel_name(-1), nullptr);
  EXPECT_EQ(tconv_kernel_name(INT32_MAX), nullptr);
  EXPECT_EQ(tconv_kernel_name(INT32_MIN), nullptr);
  EXPECT_STREQ(tconv_status_name(-1), "unknown status");
  EXPECT_STREQ(tconv_status_name(7), "unknown status");
}

// Every pointer of every operation: misaligned, null, and buffers too small.
class OperandTest : public testing::TestWithParam<const char*> {
 protected:
  OperandTest()
      : problem_(tconv::Problem::parse(GetParam())),
        plan_(problem_),
        workspace_(plan_.workspace_bytes(false) + TCONV_BUFFER_ALIGNMENT),
        memory_(4096) {
    arguments_.x = arguments_.grad_output = arguments_.weight = memory_.data();
    arguments_.bias = problem_.has_bias != 0 ? memory_.data() : nullptr;
    arguments_.output = output_.data();
    arguments_.grad_bias = problem_.grad_bias != 0 ? grad_bias_.data() : nullptr;
    arguments_.workspace = workspace_.data();
    arguments_.workspace_bytes = workspace_.size();
  }
  template <class Spoil>
  void expect_refused(const std::string& words, Spoil&& spoil) {
    tconv_arguments a = arguments_;
    spoil(a);
    output_.assign(output_.size(), 7.0f);
    grad_bias_.assign(grad_bias_.size(), 7.0f);
    EXPECT_EQ(tconv_run(handle(), &a), TCONV_INVALID_ARGUMENT) << words;
    EXPECT_EQ(std::string(tconv_last_error()).rfind(words, 0), 0u) << tconv_last_error();
    EXPECT_EQ(output_, std::vector<float>(output_.size(), 7.0f)) << "a refused call must not write";
    EXPECT_EQ(grad_bias_, std::vector<float>(grad_bias_.size(), 7.0f)) << "a refused call must not write";
  }
  const tconv_plan* handle() const { return plan_.get(); }

  tconv::Problem problem_;
  tconv::Plan plan_;
  tconv::Buffer workspace_, memory_;
  std::vector<float> output_ = std::vector<float>(2048), grad_bias_ = std::vector<float>(16);
  tconv::Arguments arguments_;
};

const void* odd(const void* p) {
  return static_cast<const char*>(p) + 1;
}

TEST_P(OperandTest, GoodOnesAreTaken) {
  EXPECT_EQ(tconv_run(handle(), &arguments_), TCONV_OK) << tconv_last_error();
}

TEST_P(OperandTest, Nulls) {
  using A = tconv_arguments;
  const int32_t operation = problem_.operation;
  expect_refused("output is null", [](A& a) { a.output = nullptr; });
  if (operation == TCONV_FORWARD || operation == TCONV_GRAD_WEIGHT) {
    expect_refused("x is null", [](A& a) { a.x = nullptr; });
  }
  if (operation != TCONV_FORWARD) {
    expect_refused("grad_output is null", [](A& a) { a.grad_output = nullptr; });
  }
  if (operation == TCONV_FORWARD || operation == TCONV_GRAD_INPUT) {
    expect_refused("weight is null, and packed_weight too", [](A& a) { a.weight = nullptr; });
  }
  if (problem_.grad_bias != 0) {
    expect_refused("grad_bias is null", [](A& a) { a.grad_bias = nullptr; });
  } else {
    expect_refused("grad_bias is given: the problem writes no gradient of a bias",
                   [&](A& a) { a.grad_bias = grad_bias_.data(); });
    if (problem_.has_bias != 0) expect_refused("bias is null", [](A& a) { a.bias = nullptr; });
  }
  if (plan_.workspace_bytes(false) > 0) {
    expect_refused("workspace is null: the plan needs ", [](A& a) { a.workspace = nullptr; });
    expect_refused(
        "workspace_bytes is " + std::to_string(plan_.workspace_bytes(false) - 1) + ": the plan needs ",
        [&](A& a) { a.workspace_bytes = plan_.workspace_bytes(false) - 1; });
  }
  expect({TCONV_INVALID_ARGUMENT, "arguments is null"}, tconv_run(handle(), nullptr));
}

TEST_P(OperandTest, Misaligned) {
  using A = tconv_arguments;
  const std::string element = " is misaligned: it must be a multiple of its element's 4 bytes";
  expect_refused("x" + element, [](A& a) { a.x = odd(a.x); });
  expect_refused("weight" + element, [](A& a) { a.weight = odd(a.weight); });
  expect_refused("bias" + element, [&](A& a) { a.bias = odd(memory_.data()); });
  expect_refused("grad_output" + element, [](A& a) { a.grad_output = odd(a.grad_output); });
  expect_refused("output" + element, [](A& a) { a.output = static_cast<char*>(a.output) + 2; });
  expect_refused("grad_bias" + element,
                 [&](A& a) { a.grad_bias = reinterpret_cast<char*>(grad_bias_.data()) + 1; });
  expect_refused("workspace is misaligned: it must be a multiple of 256 bytes",
                 [](A& a) { a.workspace = static_cast<char*>(a.workspace) + 128; });
}

TEST_P(OperandTest, PackedWeights) {
  using A = tconv_arguments;
  if (problem_.operation == TCONV_GRAD_WEIGHT || problem_.operation == TCONV_GRAD_BIAS) {
    EXPECT_EQ(plan_.packed_bytes(), 0u);
    EXPECT_EQ(tconv_pack(handle(), nullptr, nullptr, 0, nullptr), TCONV_OK);
    return;
  }
  expect_refused("weight and packed_weight are both given", [](A& a) { a.packed_weight = a.weight; });
  const std::size_t bytes = plan_.packed_bytes();
  void* packed = memory_.data();
  ASSERT_GT(bytes, 0u);
  expect_refused("packed_weight is misaligned: it must be a multiple of 256 bytes", [](A& a) {
    a.packed_weight = static_cast<const char*>(a.weight) + 128;
    a.weight = nullptr;
  });
  const tconv::Buffer buffer(bytes + TCONV_BUFFER_ALIGNMENT);
  packed = buffer.data();
  const void* weight = memory_.data();
  expect({TCONV_INVALID_ARGUMENT, "weight is null"}, tconv_pack(handle(), nullptr, packed, bytes, nullptr));
  expect({TCONV_INVALID_ARGUMENT, "packed is null"}, tconv_pack(handle(), weight, nullptr, bytes, nullptr));
  expect({TCONV_INVALID_ARGUMENT, "weight is misaligned"},
         tconv_pack(handle(), odd(weight), packed, bytes, nullptr));
  expect({TCONV_INVALID_ARGUMENT, "packed is misaligned"},
         tconv_pack(handle(), weight, buffer.data() + 128, bytes, nullptr));
  expect({TCONV_INVALID_ARGUMENT, "packed_bytes is " + std::to_string(bytes - 1) + ": the plan needs "},
         tconv_pack(handle(), weight, packed, bytes - 1, nullptr));
  EXPECT_EQ(tconv_pack(handle(), weight, packed, bytes, nullptr), TCONV_OK) << tconv_last_error();
  arguments_.weight = nullptr;
  arguments_.packed_weight = packed;
  EXPECT_EQ(tconv_run(handle(), &arguments_), TCONV_OK) << tconv_last_error();
}

INSTANTIATE_TEST_SUITE_P(Operations, OperandTest,
                         testing::Values("n2 ci8 co16 l17 k4 s2 p1 bias f32", "n1 ci8 co8 l9 k3 s2 p0 g8 f32",
                                         "gx n2 ci4 co4 l9 k4 s2 p1 f32", "gw n2 ci4 co4 l9 k4 s2 p1 f32",
                                         "gw n2 ci4 co4 l9 k4 s2 p1 bias f32",
                                         "gw n2 ci4 co4 l9 k4 s2 p1 xbias f32",
                                         "gb n2 ci4 co4 l9 k4 s2 p1 f32"),
                         [](const auto& info) {
                           return std::string("operation") + std::to_string(info.index);
                         });

}  // namespace
