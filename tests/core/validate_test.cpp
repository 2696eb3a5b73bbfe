// What is refused, by name, value and rule; and what overflows.
#include <gtest/gtest.h>

#include <limits>

#include "core/problem.hpp"

namespace tconv::core {
namespace {

Problem of(const char* line) {
  return parse(line).value();
}

TEST(Validate, RefusalsNameArgumentValueAndRule) {
  const struct {
    const char *line, *refusal;
  } table[] = {
      {"ci0 co8 l5 k3", "cin is 0: must be 1 or more"},
      {"ci8 co0 l5 k3", "cout is 0: must be 1 or more"},
      {"ci8 co8 l0 k3", "l is 0: must be 1 or more"},
      {"ci8 co8 l5 k0", "k is 0: must be 1 or more"},
      {"ci8 co8 l5 k3 s0", "stride is 0: must be 1 or more"},
      {"ci8 co8 l5 k3 d0", "dilation is 0: must be 1 or more"},
      {"ci8 co8 l5 k3 g0", "groups is 0: must be 1 or more"},
      {"ci8 co9 l5 k3 g2", "groups is 2: must divide cout, which is 9"},
      {"ci9 co8 l5 k3 g2", "groups is 2: must divide cin, which is 9"},
      {"ci8 co8 l5 k3 op1", "output_padding is 1: must be less than stride or dilation, which are 1 and 1"},
      {"ci8 co8 l5 k3 s2 d3 op3",
       "output_padding is 3: must be less than stride or dilation, which are 2 and 3"},
      {"ci8 co8 l5 k3 p4", "padding is 4: leaves an output length of -1, which must be 0 or more"},
      {"ci8 co8 l1 k1 p1", "padding is 1: leaves an output length of -1, which must be 0 or more"},
      {"ci8 co8 l5 k3 f16 tf32", "precision is tf32: only dtype f32 supports it, and dtype is f16"},
      {"strided ci8 co8 l5 k3 xs1,1,1", "x_stride is given: operation strided does not read x"},
      {"dbias ci8 co8 l5 k3 xs1,1,1", "x_stride is given: operation dbias does not read x"},
      {"ci8 co8 l5 k3 ys1,1,1", "y_stride is given: operation transposed does not read y"},
      {"ci8 co8 l5 k3 xbias",
       "xbias is given: operation transposed writes no gradient of a bias, only weight does"},
      {"gx ci8 co8 l5 k3 xbias",
       "xbias is given: operation strided writes no gradient of a bias, only weight does"},
      {"dbias ci8 co8 l5 k3 xbias",
       "xbias is given: operation dbias writes no gradient of a bias, only weight does"},
  };
  for (const auto& row : table) {
    const Status status = validate(of(row.line));
    EXPECT_EQ(status.message(), row.refusal) << row.line;
    EXPECT_EQ(status.code(), Code::invalid_problem) << row.line;
  }
}

TEST(Validate, AWeightGradientMayHaveABias) {
  for (const char* line :
       {"weight ci8 co9 l5 k3 bias", "weight ci8 co9 l5 k3 xbias", "dbias ci8 co9 l5 k3 bias"}) {
    EXPECT_TRUE(validate(of(line)).ok()) << line;
  }
}

TEST(Validate, NegativeNumbersAreRefusedByName) {
  const struct {
    int64_t Problem::*field;
    const char* name;
  } fields[] = {{&Problem::n, "n"},
                {&Problem::cin, "cin"},
                {&Problem::cout, "cout"},
                {&Problem::l, "l"},
                {&Problem::k, "k"},
                {&Problem::stride, "stride"},
                {&Problem::padding, "padding"},
                {&Problem::output_padding, "output_padding"},
                {&Problem::dilation, "dilation"},
                {&Problem::groups, "groups"}};
  for (const auto& f : fields) {
    for (const int64_t value : {int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
      Problem p = of("ci8 co8 l5 k3");
      p.*f.field = value;
      const std::string message = validate(p).message();
      EXPECT_EQ(message.rfind(f.name + std::string(" is ") + std::to_string(value) + ": must be ", 0), 0u)
          << message;
    }
  }
  Problem p = of("ci8 co8 l5 k3 xs1,1,1");
  p.x_stride[1] = -4;
  EXPECT_EQ(validate(p).message(), "x_stride[1] is -4: must be 0 or more");
}

TEST(Validate, UnknownEnumeratorsAreRefused) {
  Problem p = of("ci8 co8 l5 k3");
  p.dtype = static_cast<DType>(4);
  EXPECT_EQ(validate(p).message(), "dtype is 4: must be 0 to 3");
  p = of("ci8 co8 l5 k3");
  p.operation = static_cast<Operation>(-1);
  EXPECT_EQ(validate(p).message(), "operation is -1: must be 0 to 3");
  p = of("ci8 co8 l5 k3");
  p.precision = static_cast<Precision>(2);
  EXPECT_EQ(validate(p).message(), "precision is 2: must be 0 to 1");
}

TEST(Validate, EdgesOfTheRulesAreAccepted) {
  for (const char* line : {"n0 ci8 co8 l5 k3", "ci1 co1 l1 k1", "ci8 co8 l4 k1 p2", "ci8 co8 l5 k3 s4 op3",
                           "ci8 co8 l5 k3 s2 d5 op4", "ci8 co8 l5 k3 g8", "gw ci8 co8 l5 k3 xs0,0,0",
                           "weight ci8 co8 l5 k3 xs0,0,0 ys1,0,2", "n2147483648 ci1 co1 l2 k1 xs0,0,0",
                           "ci1 co1 l3000000000 k1"}) {
    EXPECT_TRUE(validate(of(line)).ok()) << line << ": " << validate(of(line)).message();
  }
  EXPECT_EQ(of("ci8 co8 l4 k1 p2").lout(), 0);
}

TEST(Validate, OverflowOfAnySizeIsRefused) {
  for (const char* line : {
           "ci1 co1 l4000000000 k1 s4000000000",                 // lout
           "ci1 co1 l1 k4000000000 d4000000000",                 // lout, by dilation
           "ci1 co1 l1 k1 p9000000000000000000",                 // 2*padding
           "n4000000000 ci1 co1 l4000000000 k1",                 // x
           "ci4000000000 co4000000000 l1 k1",                    // weight
           "n9000000000000000000 ci1 co1 l1 k1",                 // bytes of x
           "n1000000000 ci1 co1000000000 l10 k1",                // y
           "n2 ci1 co1 l2 k1 xs9000000000000000000,1,1",         // span of x
           "weight n2 ci1 co1 l2 k1 ys9000000000000000000,1,1",  // span of y
           "n0 ci1 co1000000000 l10000000000 k1",                // one sample of y, though n is 0
           "n100000000000 ci1 co100000000 l1 k3 p1",             // n*cout
           "n100000000000 ci1 co100000000 l2 k1 p1",             // though y is empty
       }) {
    const Status status = validate(of(line));
    EXPECT_EQ(status.code(), Code::invalid_problem) << line;
    EXPECT_FALSE(status.message().empty());
  }
  EXPECT_NE(validate(of("ci1 co1 l4000000000 k1 s4000000000")).message().find("overflows 63 bits"),
            std::string::npos);
}

}  // namespace
}  // namespace tconv::core
