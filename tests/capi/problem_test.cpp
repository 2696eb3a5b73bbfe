// The C API's problem calls: text, checks, lengths, and refusals by name.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "tconv/tconv.h"

namespace {

tconv_problem parsed(const char* text) {
  tconv_problem problem;
  EXPECT_EQ(tconv_problem_parse(text, &problem), TCONV_OK) << tconv_last_error();
  return problem;
}

std::string text_of(const tconv_problem& problem) {
  char text[256];
  std::size_t length = 0;
  EXPECT_EQ(tconv_problem_text(&problem, text, sizeof text, &length), TCONV_OK) << tconv_last_error();
  EXPECT_EQ(length, std::strlen(text));
  return text;
}

TEST(ProblemTest, InitSetsDefaults) {
  tconv_problem problem;
  std::memset(&problem, 0xff, sizeof problem);
  tconv_problem_init(&problem);
  problem.cin = problem.cout = problem.l = problem.k = 1;
  EXPECT_EQ(tconv_problem_check(&problem), TCONV_OK) << tconv_last_error();
  EXPECT_EQ(text_of(problem), "n1 ci1 co1 l1 k1 s1 p0 f32");
}

TEST(ProblemTest, TextRoundTrip) {
  for (const char* text :
       {"n64 ci128 co128 l65536 k3 s1 p0 f32 tf32", "weight n0 ci4 co8 l7 k5 s3 p2 op1 d2 g4 f64",
        "n2 ci4 co8 l7 k5 s3 p2 bias xs0,7,1 bf16", "strided n1 ci1 co1 l1 k1 s1 p0 bias ys3,2,1 f16"}) {
    EXPECT_EQ(text_of(parsed(text)), text);
  }
}

TEST(ProblemTest, TheStridedProductAndTheGradientOfACallThatHasABias) {
  tconv_problem problem = parsed("strided ci4 co6 l5 k3 bias");
  EXPECT_EQ(problem.operation, TCONV_STRIDED);
  int64_t elements = 0;
  EXPECT_EQ(tconv_tensor_elements(&problem, TCONV_BIAS, &elements), TCONV_OK);
  EXPECT_EQ(elements, 4);
  problem.operation = TCONV_GRAD_INPUT;
  EXPECT_EQ(text_of(problem), "strided n1 ci4 co6 l5 k3 s1 p0 f32");
  // Callers of the first header get the name that it has.
  EXPECT_EQ(tconv_problem_parse_sized("strided ci4 co6 l5 k3", &problem, 128), TCONV_OK);
  EXPECT_EQ(problem.operation, TCONV_GRAD_INPUT);
  EXPECT_EQ(tconv_problem_parse_sized("strided ci4 co6 l5 k3 bias", &problem, 128), TCONV_OK);
  EXPECT_EQ(problem.operation, TCONV_STRIDED);
  EXPECT_EQ(tconv_problem_parse_sized("strided ci4 co6 l5 k3 ys0,0,0", &problem, 128),
            TCONV_INVALID_ARGUMENT);
}

TEST(ProblemTest, StepsOfGradOutput) {
  tconv_problem problem = parsed("weight n2 ci4 co6 l5 k3");
  problem.y_strided = 1;
  problem.y_stride[0] = 100, problem.y_stride[1] = 1, problem.y_stride[2] = 8;
  EXPECT_EQ(text_of(problem), "weight n2 ci4 co6 l5 k3 s1 p0 ys100,1,8 f32");
  int64_t elements = 0;
  EXPECT_EQ(tconv_tensor_elements(&problem, TCONV_Y, &elements), TCONV_OK);
  EXPECT_EQ(elements, 100 + 5 + 6 * 8 + 1);
  problem.y_strided = 2;
  EXPECT_EQ(tconv_problem_check(&problem), TCONV_INVALID_ARGUMENT);
  EXPECT_STREQ(tconv_last_error(), "y_strided is 2: must be 0 or 1");
}

TEST(ProblemTest, TheBiasGradientOfAWeightProblem) {
  tconv_problem problem = parsed("weight n2 ci4 co6 l5 k3");
  int64_t elements = -1;
  // What older callers set says nothing about the gradient, which they have no place for.
  problem.has_bias = 1;
  EXPECT_EQ(text_of(problem), "weight n2 ci4 co6 l5 k3 s1 p0 f32");
  EXPECT_EQ(tconv_tensor_elements(&problem, TCONV_BIAS, &elements), TCONV_OK);
  EXPECT_EQ(elements, 0);
  problem.has_bias = 0;
  const struct {
    int32_t grad_bias;
    const char* text;
    int64_t elements;
  } cases[] = {{TCONV_GRAD_BIAS_OF_Y, "weight n2 ci4 co6 l5 k3 s1 p0 bias f32", 6},
               {TCONV_GRAD_BIAS_OF_X, "weight n2 ci4 co6 l5 k3 s1 p0 xbias f32", 4}};
  for (const auto& c : cases) {
    problem.grad_bias = c.grad_bias;
    EXPECT_EQ(text_of(problem), c.text);
    EXPECT_EQ(parsed(c.text).grad_bias, c.grad_bias);
    EXPECT_EQ(tconv_tensor_elements(&problem, TCONV_BIAS, &elements), TCONV_OK);
    EXPECT_EQ(elements, c.elements);
    EXPECT_EQ(tconv_problem_set_output_length(&problem, 7), TCONV_OK) << tconv_last_error();
    EXPECT_EQ(problem.grad_bias, c.grad_bias);
  }
  problem.grad_bias = 3;
  EXPECT_EQ(tconv_problem_check(&problem), TCONV_INVALID_PROBLEM);
  EXPECT_STREQ(tconv_last_error(), "grad_bias is 3: must be 0 to 2");
  problem.operation = TCONV_GRAD_BIAS, problem.grad_bias = 1;
  EXPECT_EQ(tconv_problem_check(&problem), TCONV_INVALID_PROBLEM);
  EXPECT_STREQ(tconv_last_error(), "grad_bias is 1: must be 0 where operation is not 2, the weight gradient");
}

TEST(ProblemTest, CallersOfTheFirstHeaderGetTheGradientOfTheWeightAlone) {
  for (const char* line : {"weight ci4 co6 l5 k3 bias", "conv1d_gw ci4 co6 l5 k3 bias"}) {
    tconv_problem problem = {};
    EXPECT_EQ(tconv_problem_parse_sized(line, &problem, 128), TCONV_OK) << tconv_last_error();
    EXPECT_EQ(problem.has_bias, 1);
    EXPECT_EQ(text_of(problem).find("bias"), std::string::npos) << text_of(problem);
  }
}

TEST(ProblemTest, Conv1d) {
  tconv_problem call = parsed("n2 ci80 co512 l100 k7 s2 p3 bias"), problem;
  EXPECT_EQ(tconv_conv1d_problem(&call, &problem), TCONV_OK) << tconv_last_error();
  EXPECT_EQ(text_of(problem), "strided n2 ci512 co80 l50 k7 s2 p3 op1 bias f32");
  EXPECT_EQ(problem.operation, TCONV_STRIDED);
  call.operation = TCONV_GRAD_INPUT;
  EXPECT_EQ(tconv_conv1d_problem(&call, &call), TCONV_OK) << tconv_last_error();
  EXPECT_EQ(text_of(call), "n2 ci512 co80 l50 k7 s2 p3 op1 f32");
  call = parsed("n2 ci80 co512 l100 k7 s2 p3 bias");
  call.operation = TCONV_GRAD_WEIGHT;
  EXPECT_EQ(tconv_conv1d_problem(&call, &problem), TCONV_OK) << tconv_last_error();
  EXPECT_EQ(text_of(problem), "weight n2 ci512 co80 l50 k7 s2 p3 op1 f32");
  call.grad_bias = TCONV_GRAD_BIAS_OF_Y;
  EXPECT_EQ(tconv_conv1d_problem(&call, &problem), TCONV_OK) << tconv_last_error();
  EXPECT_EQ(problem.grad_bias, TCONV_GRAD_BIAS_OF_X);
  EXPECT_EQ(text_of(problem), "weight n2 ci512 co80 l50 k7 s2 p3 op1 xbias f32");
  call.grad_bias = TCONV_GRAD_BIAS_OF_X;
  EXPECT_EQ(tconv_conv1d_problem(&call, &problem), TCONV_INVALID_PROBLEM);
  EXPECT_STREQ(tconv_last_error(), "grad_bias is 2: must be 0 or 1 in a Conv1d, 1 for the sums of its dy");
  call.grad_bias = 0;
  call.operation = TCONV_STRIDED;
  EXPECT_EQ(tconv_conv1d_problem(&call, &problem), TCONV_INVALID_PROBLEM);
  EXPECT_STREQ(tconv_last_error(),
               "operation is 4: a Conv1d has the passes 0 to 3, forward and three gradients");
  call = parsed("ci4 co6 l5 k6");
  EXPECT_EQ(tconv_conv1d_problem(&call, &problem), TCONV_INVALID_PROBLEM);
  EXPECT_STREQ(
      tconv_last_error(),
      "k is 6: l+2*padding is 5, shorter than the kernel, which reaches over dilation*(k-1)+1 = 6 positions");
  EXPECT_EQ(tconv_conv1d_problem(nullptr, &problem), TCONV_INVALID_ARGUMENT);
  EXPECT_STREQ(tconv_last_error(), "call is null");
}

TEST(ProblemTest, FromTheShapesOfACall) {
  const int64_t x[] = {2, 4, 9}, weight[] = {4, 3, 5}, bias[] = {3}, y[] = {2, 3, 18};
  tconv_problem problem = parsed("ci1 co1 l1 k1 s2 p2 op1");
  EXPECT_EQ(tconv_problem_from_shapes(&problem, x, 3, weight, 3, bias, 1, -1), TCONV_OK)
      << tconv_last_error();
  EXPECT_EQ(text_of(problem), "n2 ci4 co3 l9 k5 s2 p2 op1 bias f32");
  problem.operation = TCONV_STRIDED, problem.output_padding = 0;
  EXPECT_EQ(tconv_problem_from_shapes(&problem, y + 1, 2, weight, 3, nullptr, -1, 9), TCONV_OK);
  EXPECT_EQ(text_of(problem), "strided n1 ci4 co3 l9 k5 s2 p2 op1 f32");
  problem.output_padding = 0;
  EXPECT_EQ(tconv_problem_from_shapes(&problem, y, 3, weight, 3, nullptr, -1, -1), TCONV_OK);
  EXPECT_EQ(text_of(problem), "strided n2 ci4 co3 l9 k5 s2 p2 op1 f32") << "of Conv1d's length";
  EXPECT_EQ(tconv_problem_set_output_length(&problem, 17), TCONV_OK);
  EXPECT_EQ(text_of(problem), "strided n2 ci4 co3 l9 k5 s2 p2 f32");
  EXPECT_EQ(tconv_problem_set_output_length(&problem, 16), TCONV_INVALID_PROBLEM);
  EXPECT_STREQ(tconv_last_error(),
               "the output length is 16: no output_padding gives it for an input length of 9");
  EXPECT_EQ(text_of(problem), "strided n2 ci4 co3 l9 k5 s2 p2 f32") << "a refused call leaves it as it was";
}

TEST(ProblemTest, FromShapesRefusesByName) {
  const int64_t x[] = {2, 4, 9}, weight[] = {4, 3, 5};
  const struct {
    const int64_t* input;
    int32_t input_dims, bias_dims;
    int64_t length;
    tconv_status status;
    const char* refusal;
  } table[] = {
      {nullptr, 3, -1, -1, TCONV_INVALID_ARGUMENT, "input is null"},
      {x, -1, -1, -1, TCONV_INVALID_ARGUMENT, "input_dims is -1: must be 0 to 64"},
      {x, 65, -1, -1, TCONV_INVALID_ARGUMENT, "input_dims is 65: must be 0 to 64"},
      {x, 3, 1, -1, TCONV_INVALID_ARGUMENT, "bias is null"},
      {x, 3, 0, -1, TCONV_INVALID_PROBLEM, "bias has shape []: weight of shape [4, 3, 5] needs 3 elements"},
      {x, 3, -1, -2, TCONV_INVALID_ARGUMENT, "length is -2: must be -1 or more"},
      {x, 3, -1, 9, TCONV_INVALID_ARGUMENT, "length is 9: must be -1 for a transposed convolution"},
      {x, 1, -1, -1, TCONV_INVALID_PROBLEM,
       "input has shape [2]: it must be (batch, channels, length) or (channels, length)"},
  };
  for (const auto& row : table) {
    tconv_problem problem = parsed("ci1 co1 l1 k1 s2");
    EXPECT_EQ(tconv_problem_from_shapes(&problem, row.input, row.input_dims, weight, 3, nullptr,
                                        row.bias_dims, row.length),
              row.status);
    EXPECT_STREQ(tconv_last_error(), row.refusal);
    EXPECT_EQ(text_of(problem), "n1 ci1 co1 l1 k1 s2 p0 f32");
  }
  EXPECT_EQ(tconv_problem_from_shapes(nullptr, x, 3, weight, 3, nullptr, -1, -1), TCONV_INVALID_ARGUMENT);
  EXPECT_STREQ(tconv_last_error(), "problem is null");
  EXPECT_EQ(tconv_problem_set_output_length(nullptr, 1), TCONV_INVALID_ARGUMENT);
  EXPECT_STREQ(tconv_last_error(), "problem is null");
}

TEST(ProblemTest, TextTellsLengthAndRefusesShortBuffers) {
  const tconv_problem problem = parsed("n1 ci1 co1 l1 k1 s1 p0 f32");
  std::size_t length = 0;
  EXPECT_EQ(tconv_problem_text(&problem, nullptr, 0, &length), TCONV_OK);
  EXPECT_EQ(length, 26u);
  char text[26];
  EXPECT_EQ(tconv_problem_text(&problem, text, sizeof text, &length), TCONV_INVALID_ARGUMENT);
  EXPECT_STREQ(tconv_last_error(), "capacity is 26: the text needs 27");
}

TEST(ProblemTest, RefusalsNameTheArgument) {
  tconv_problem problem = parsed("n1 ci4 co6 l5 k3 s2 p0 f32");
  problem.groups = 4;
  EXPECT_EQ(tconv_problem_check(&problem), TCONV_INVALID_PROBLEM);
  EXPECT_STREQ(tconv_last_error(), "groups is 4: must divide cout, which is 6");
  problem.groups = 1;
  problem.dtype = 9;
  EXPECT_EQ(tconv_problem_check(&problem), TCONV_INVALID_PROBLEM);
  EXPECT_STREQ(tconv_last_error(), "dtype is 9: must be 0 to 3");
  int64_t lout = -7;
  EXPECT_EQ(tconv_output_length(&problem, &lout), TCONV_INVALID_PROBLEM);
  EXPECT_EQ(lout, -7) << "a refused call must not touch its output";
}

TEST(ProblemTest, NullPointersAreRefusedByName) {
  tconv_problem problem;
  EXPECT_EQ(tconv_problem_parse(nullptr, &problem), TCONV_INVALID_ARGUMENT);
  EXPECT_STREQ(tconv_last_error(), "text is null");
  EXPECT_EQ(tconv_problem_parse("n1", nullptr), TCONV_INVALID_ARGUMENT);
  EXPECT_STREQ(tconv_last_error(), "problem is null");
  EXPECT_EQ(tconv_problem_check(nullptr), TCONV_INVALID_ARGUMENT);
  problem = parsed("ci1 co1 l1 k1");
  EXPECT_EQ(tconv_output_length(&problem, nullptr), TCONV_INVALID_ARGUMENT);
  EXPECT_STREQ(tconv_last_error(), "lout is null");
  tconv_problem_init(nullptr);
}

TEST(ProblemTest, WrongStructSizeIsRefused) {
  tconv_problem problem = parsed("ci1 co1 l1 k1");
  problem.struct_size = 4;
  EXPECT_EQ(tconv_problem_check(&problem), TCONV_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tconv_last_error()).find("struct_size is 4"), std::string::npos);
}

TEST(ProblemTest, MessagesBelongToTheirThread) {
  EXPECT_EQ(tconv_problem_check(nullptr), TCONV_INVALID_ARGUMENT);
  std::string other;
  std::thread([&] {
    tconv_problem problem;
    EXPECT_NE(tconv_problem_parse("q", &problem), TCONV_OK);
    other = tconv_last_error();
  }).join();
  EXPECT_STREQ(tconv_last_error(), "problem is null");
  EXPECT_EQ(other, "column 1: 'q' is not a word of a problem");
}

TEST(ProblemTest, OutputLength) {
  const tconv_problem problem = parsed("ci1 co1 l10 k3 s2 p1 op1 f32");
  int64_t lout = 0;
  EXPECT_EQ(tconv_output_length(&problem, &lout), TCONV_OK);
  EXPECT_EQ(lout, 20);
}

TEST(StatusTest, EveryStatusHasAName) {
  for (int status = TCONV_OK; status <= TCONV_INTERNAL_ERROR; ++status) {
    EXPECT_STRNE(tconv_status_name(static_cast<tconv_status>(status)), "unknown status");
  }
  EXPECT_STREQ(tconv_version(), "0.1.0");
  EXPECT_NE(std::string(tconv_build_info()).find("0.1.0"), std::string::npos);
}

}  // namespace
