// The one-line text of a problem: round trip, order of words, refusals with word and column.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "core/problem.hpp"
#include "judge/draw.hpp"

namespace tconv::core {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Any problem without negative numbers, valid or not: text() promises to hold them all.
Problem draw_any(judge::Rng& rng) {
  auto number = [&] { return rng.chance(10) ? kMost : rng.chance(10) ? 0 : rng.log_between(1, kMost / 2); };
  Problem p;
  for (int64_t* field : {&p.n, &p.cin, &p.cout, &p.l, &p.k, &p.stride, &p.padding, &p.output_padding,
                         &p.dilation, &p.groups}) {
    *field = number();
  }
  p.operation = static_cast<Operation>(rng.between(0, 3));
  p.dtype = static_cast<DType>(rng.between(0, 3));
  p.precision = static_cast<Precision>(rng.between(0, 1));
  p.has_bias = rng.chance(50);
  p.bias_of_x = p.has_bias && rng.chance(30);
  p.x_contiguous = rng.chance(50);
  if (!p.x_contiguous) p.x_stride = {number(), number(), number()};
  p.y_contiguous = rng.chance(50);
  if (!p.y_contiguous) p.y_stride = {number(), number(), number()};
  return p;
}

TEST(Text, RoundTripIsTheIdentity) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    judge::Rng rng(1, i);
    const Problem p = draw_any(rng);
    const auto back = parse(text(p));
    ASSERT_TRUE(back.ok()) << text(p) << ": " << back.status().message();
    ASSERT_EQ(back.value(), p) << text(p);
    ASSERT_EQ(text(back.value()), text(p));
  }
}

TEST(Text, WordsMayComeInAnyOrderAndDistance) {
  for (uint64_t i = 0; i < 2'000; ++i) {
    judge::Rng rng(2, i);
    const Problem p = draw_any(rng);
    std::istringstream line(text(p));
    std::vector<std::string> words;
    for (std::string word; line >> word;) words.push_back(word);
    for (std::size_t j = words.size(); j > 1; --j) {
      std::swap(words[j - 1], words[static_cast<std::size_t>(rng.between(0, static_cast<int64_t>(j) - 1))]);
    }
    std::string shuffled = rng.chance(50) ? "\t" : "";
    for (const std::string& word : words) shuffled += word + (rng.chance(30) ? " \t  " : " ");
    const auto back = parse(shuffled);
    ASSERT_TRUE(back.ok()) << shuffled;
    ASSERT_EQ(back.value(), p) << shuffled;
  }
}

TEST(Text, ShortFormsMeanTheDefaults) {
  Problem p;
  p.cin = 2, p.cout = 3, p.l = 5, p.k = 7;
  EXPECT_EQ(parse("ci2 co3 l5 k7").value(), p);
  EXPECT_EQ(parse("fwd n1 ci2 co3 l5 k7 s1 p0 op0 d1 g1 f32 ieee").value(), p);
  EXPECT_EQ(text(p), "n1 ci2 co3 l5 k7 s1 p0 f32");
  EXPECT_EQ(text(parse("n64 ci128 co128 l65536 k3 s1 p0 f32 tf32").value()),
            "n64 ci128 co128 l65536 k3 s1 p0 f32 tf32");
}

TEST(Text, OperationsHaveTwoNames) {
  const std::pair<const char*, const char*> pairs[] = {
      {"fwd", "transposed"}, {"gx", "strided"}, {"gw", "weight"}, {"gb", "dbias"}};
  for (const auto& [old, name] : pairs) {
    const auto problem = parse(std::string(old) + " ci2 co3 l5 k7");
    EXPECT_EQ(problem.value(), parse(std::string(name) + " ci2 co3 l5 k7").value());
    EXPECT_STREQ(name_of(problem.value().operation), name);
  }
  // gx is the gradient of a call that may have a bias; strided has a bias of its own.
  EXPECT_EQ(parse("bias gx ci2 co3 l5 k7").value(), parse("strided ci2 co3 l5 k7").value());
  EXPECT_EQ(text(parse("bias strided ci2 co3 l5 k7 ys9,3,1").value()),
            "strided n1 ci2 co3 l5 k7 s1 p0 bias ys9,3,1 f32");
}

TEST(Text, AWeightGradientSaysWhichBiasGradientItWrites) {
  Problem p = parse("gw ci2 co3 l5 k7").value();
  EXPECT_FALSE(p.writes_grad_bias());
  EXPECT_EQ(p.grad_bias_elements(), 0);
  p = parse("bias gw ci2 co3 l5 k7").value();
  EXPECT_EQ(text(p), "weight n1 ci2 co3 l5 k7 s1 p0 bias f32");
  EXPECT_EQ(p.grad_bias_elements(), 3);
  p = parse("gw ci2 co3 l5 k7 xbias").value();
  EXPECT_EQ(text(p), "weight n1 ci2 co3 l5 k7 s1 p0 xbias f32");
  EXPECT_EQ(p.grad_bias_elements(), 2);
  EXPECT_FALSE(p.reads_bias());
  p = parse("gx ci2 co3 l5 k7 xbias").value();  // which validate() refuses
  EXPECT_EQ(parse(text(p)).value(), p);
}

TEST(Text, RefusalsNameTheWordAndItsColumn) {
  const struct {
    const char *line, *refusal;
  } table[] = {
      {"", "column 1: the word ci# is missing"},
      {"   ", "column 4: the word ci# is missing"},
      {"n1 ci8 co8 l5", "column 14: the word k# is missing"},
      {"ci8 co8 k5", "column 11: the word l# is missing"},
      {"ci8 l8 k5", "column 10: the word co# is missing"},
      {"ci8 co8 l5 k3 zebra", "column 15: 'zebra' is not a word of a problem"},
      {"ci8 co8 l5 k3 f33", "column 15: 'f33' is not a word of a problem"},
      {"ci8 co8 l5 k3 F32", "column 15: 'F32' is not a word of a problem"},
      {"ci8 co8 l5 k3 biased", "column 15: 'biased' is not a word of a problem"},
      {"ci8 co8 l5 k3 k3", "column 15: 'k3' repeats a word that was already given"},
      {"ci8 co8 l5 k3 f32 f16", "column 19: 'f16' repeats a word that was already given"},
      {"ci8 co8 l5 k3 tf32 ieee", "column 20: 'ieee' repeats a word that was already given"},
      {"fwd ci8 co8 l5 k3 gx", "column 19: 'gx' repeats a word that was already given"},
      {"ci8 co8 l5 k3 bias bias", "column 20: 'bias' repeats a word that was already given"},
      {"gw ci8 co8 l5 k3 bias xbias", "column 23: 'xbias' repeats a word that was already given"},
      {"ci8 co8 l5 k3 xs1,1,1 xs1,1,1", "column 23: 'xs1,1,1' repeats a word that was already given"},
      {"ci-8 co8 l5 k3", "column 1: 'ci-8' needs only digits after its letters"},
      {"ci8 co+8 l5 k3", "column 5: 'co+8' needs only digits after its letters"},
      {"ci8 co8 l k3", "column 9: 'l' needs only digits after its letters"},
      {"ci8 co8 l5.0 k3", "column 9: 'l5.0' needs only digits after its letters"},
      {"ci8 co8 l5 k3x", "column 12: 'k3x' needs only digits after its letters"},
      {"ci8 co8 l5 k0x3", "column 12: 'k0x3' needs only digits after its letters"},
      {"ci8 co8 l9223372036854775808 k3", "column 9: 'l9223372036854775808' does not fit in 63 bits"},
      {"ci8 co8 l99999999999999999999999999 k3",
       "column 9: 'l99999999999999999999999999' does not fit in 63 bits"},
      {"ci8 co8 l5 k3 xs1,2", "column 15: 'xs1,2' needs three numbers, xs#,#,#"},
      {"ci8 co8 l5 k3 xs1,2,", "column 15: 'xs1,2,' needs only digits after its letters"},
      {"ci8 co8 l5 k3 xs1,2,3,4", "column 15: 'xs1,2,3,4' needs only digits after its letters"},
      {"ci8 co8 l5 k3 xs1,-2,3", "column 15: 'xs1,-2,3' needs only digits after its letters"},
      {"ci8 co8 l5 k3 ys1", "column 15: 'ys1' needs three numbers, ys#,#,#"},
      {"conv1d ci8 co8 l5 k3 strided", "column 22: 'strided' repeats a word that was already given"},
      {"ci8 co8 l5 k3 xs", "column 15: 'xs' needs three numbers, xs#,#,#"},
      {"ci8\nco8 l5 k3", "column 1: 'ci8\nco8' needs only digits after its letters"},
  };
  for (const auto& row : table) {
    const auto parsed = parse(row.line);
    ASSERT_FALSE(parsed.ok()) << row.line;
    EXPECT_EQ(parsed.status().code(), Code::invalid_argument) << row.line;
    EXPECT_EQ(parsed.status().message(), row.refusal) << row.line;
  }
  EXPECT_TRUE(parse("ci8 co8 l9223372036854775807 k3").ok());
}

}  // namespace
}  // namespace tconv::core
