// From the shapes of a call's tensors to a problem: the rules that every binding asks for.
#include "core/tensor_shapes.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace tconv::core {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

struct Call {
  const char* numbers;  // words of a problem's text: stride, padding, ...
  std::vector<int64_t> input, weight;
  std::optional<std::vector<int64_t>> bias = {};
  std::optional<int64_t> length = {};
};

Result<Problem> problem_of(const Call& call, Operation operation) {
  // Sizes that the shapes must replace.
  Problem numbers = parse(std::string("n9 ci9 co9 l9 k9 ") + call.numbers).value();
  numbers.operation = operation;
  TensorShapes shapes{call.input, call.weight, std::nullopt};
  if (call.bias) shapes.bias = Shape(*call.bias);
  return problem_of(numbers, shapes, call.length);
}

std::string made(const Call& call, Operation operation) {
  const auto result = problem_of(call, operation);
  return result.ok() ? text(result.value()) : result.status().message();
}

TEST(TensorShapes, Transposed) {
  const Operation transposed = Operation::transposed;
  EXPECT_EQ(made({"s3 p1 op2 d2 g2 f16", {5, 4, 7}, {4, 3, 2}, {{6}}}, transposed),
            "n5 ci4 co6 l7 k2 s3 p1 op2 d2 g2 bias f16");
  EXPECT_EQ(made({"bias f32 tf32", {4, 7}, {4, 3, 2}}, transposed), "n1 ci4 co3 l7 k2 s1 p0 f32 tf32");
  EXPECT_EQ(made({"xs0,1,4", {0, 4, 7}, {4, 3, 2}}, transposed), "n0 ci4 co3 l7 k2 s1 p0 xs0,1,4 f32");
}

TEST(TensorShapes, StridedOfAGivenLength) {
  const Operation strided = Operation::strided;
  // 12 = (4 - 1) * 3 - 2 + 2 * (2 - 1) + 1 + output_padding
  EXPECT_EQ(made({"s3 p1 d2", {5, 3, 12}, {4, 3, 2}, {{4}}, 4}, strided),
            "strided n5 ci4 co3 l4 k2 s3 p1 op2 d2 bias f32");
  EXPECT_EQ(made({"s3 p1 d2", {5, 3, 9}, {4, 3, 2}, {}, 4}, strided),
            "the output length is 9: no output_padding gives it for an input length of 4");
  EXPECT_EQ(made({"s3 p1 d2", {5, 3, 13}, {4, 3, 2}, {}, 4}, strided),
            "output_padding is 3: must be less than stride or dilation, which are 3 and 2");
  EXPECT_EQ(made({"", {5, 3, kMost}, {4, 3, 2}, {}, 4}, strided).substr(0, 19), "the output length i");
  EXPECT_EQ(made({"", {5, 3, 9}, {4, 3, 2}, {}, kMost}, strided).substr(0, 19), "the output length i");
  EXPECT_EQ(made({"", {5, 3, 9}, {4, 3, 2}, {}, 0}, strided), "l is 0: must be 1 or more");
}

TEST(TensorShapes, StridedOfConv1dsLengthIsConv1d) {
  for (const char* numbers : {"s3 p1 d2", "s1 p0", "s2 p3", "s4 p2 d3"}) {
    const std::string line = std::string("conv1d n5 ci6 co4 l17 k5 g2 bias ") + numbers;
    const Call call{numbers, {5, 6, 17}, {4, 3, 5}, {{4}}};
    Call grouped = call;
    const std::string with_groups = std::string(numbers) + " g2";
    grouped.numbers = with_groups.c_str();
    EXPECT_EQ(made(grouped, Operation::strided), text(parse(line).value()));
  }
  EXPECT_EQ(made({"ys3,2,1", {6, 17}, {4, 6, 5}}, Operation::strided).find("ys3,2,1") != std::string::npos,
            true);
}

TEST(TensorShapes, RefusalsNameTheTensors) {
  const struct {
    Call call;
    const char* refusal;
  } table[] = {
      {{"", {}, {4, 3, 2}}, "input has shape []: it must be (batch, channels, length) or (channels, length)"},
      {{"", {1, 1, 4, 7}, {4, 3, 2}},
       "input has shape [1, 1, 4, 7]: it must be (batch, channels, length) or (channels, length)"},
      {{"", {4, 7}, {4, 3}},
       "weight has shape [4, 3]: it must be (in_channels, out_channels/groups, kernel_size)"},
      {{"", {5, 7}, {4, 3, 2}}, "input has 5 channels (shape [5, 7]): weight of shape [4, 3, 2] needs 4"},
      {{"g3", {4, 7}, {4, 3, 2}}, "groups is 3: must divide the 4 input channels"},
      {{"", {4, 7}, {4, 3, 0}}, "weight has shape [4, 3, 0]: it must not be empty"},
      {{"", {4, 0}, {4, 3, 2}}, "input has shape [4, 0]: its length must be 1 or more"},
      {{"g2", {4, 7}, {4, 3, 2}, {{3}}},
       "bias has shape [3]: weight of shape [4, 3, 2] and groups 2 needs 6 elements"},
      {{"", {4, 7}, {4, 3, 2}, {{1, 3}}},
       "bias has shape [1, 3]: weight of shape [4, 3, 2] needs 3 elements"},
      {{"p9", {4, 7}, {4, 3, 2}}, "padding is 9: leaves an output length of -10, which must be 0 or more"},
  };
  for (const auto& row : table) EXPECT_EQ(made(row.call, Operation::transposed), row.refusal);
  EXPECT_EQ(made({"", {4, 7}, {4, 3, 2}}, Operation::strided),
            "input has 4 channels (shape [4, 7]): weight of shape [4, 3, 2] needs 3");
  EXPECT_EQ(made({"g3", {3, 7}, {4, 1, 2}}, Operation::strided),
            "groups is 3: must divide the 4 output channels");
  EXPECT_EQ(made({"", {3, 0}, {4, 3, 2}}, Operation::strided),
            "input has shape [3, 0]: its length must be 1 or more");
  EXPECT_EQ(made({"", {4, 7}, {4, 3, 2}}, Operation::weight).substr(0, 9), "operation");
  Problem numbers = parse("ci1 co1 l1 k1").value();
  const std::vector<int64_t> input = {4, 7}, weight = {4, 3, 2};
  for (const int64_t groups : {int64_t{0}, int64_t{-1}, kMost}) {
    numbers.groups = groups;
    EXPECT_FALSE(problem_of(numbers, {input, weight, {}}, {}).ok()) << groups;
  }
}

TEST(TensorShapes, OutputPaddingFollowsFromBothLengths) {
  for (const char* line :
       {"ci2 co3 l5 k4 s3 p2 op1 d2", "ci2 co3 l5 k4 s3", "weight ci2 co3 l5 k1 p2 d9 op7"}) {
    const Problem wanted = parse(line).value();
    ASSERT_TRUE(validate(wanted).ok());
    Problem p = wanted;
    p.output_padding = 99;
    EXPECT_TRUE(set_lout(p, wanted.lout()).ok());
    EXPECT_EQ(p, wanted);
  }
  Problem p = parse("ci2 co3 l5 k4 s3").value();
  EXPECT_FALSE(set_lout(p, 15).ok());
  EXPECT_FALSE(set_lout(p, -1).ok());
}

}  // namespace
}  // namespace tconv::core
