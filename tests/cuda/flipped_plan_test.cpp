// cuda.simt.flipped: the strided product that it computes is the transposed one, with the taps in reverse.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/refusal.hpp"
#include "cuda/simt/flipped.hpp"
#include "judge/draw.hpp"
#include "reference/reference.hpp"

namespace tconv::cuda {
namespace {

std::vector<float> integers(int64_t count, int seed) {
  std::vector<float> v(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    v[static_cast<std::size_t>(i)] = static_cast<float>((i * 37 + i * i % 11 + seed) % 9 - 4);
  return v;
}

// w[ci][co][k] as the strided product of the same groups reads it: w[co][ci][K-1-k].
std::vector<float> flipped(const core::Problem& p, const std::vector<float>& w) {
  std::vector<float> out(w.size());
  const int64_t in = p.cin_per_group(), co_group = p.cout_per_group();
  for (int64_t ci = 0; ci < p.cin; ++ci) {
    for (int64_t co = 0; co < co_group; ++co) {
      for (int64_t k = 0; k < p.k; ++k) {
        const int64_t row = ci / in * co_group + co;
        out[static_cast<std::size_t>((row * in + ci % in) * p.k + p.k - 1 - k)] =
            w[static_cast<std::size_t>((ci * co_group + co) * p.k + k)];
      }
    }
  }
  return out;
}

core::Problem drawn(judge::Rng& rng) {
  judge::DrawOptions draw;
  draw.gradients = false;
  core::Problem p = judge::draw_valid(rng, draw);
  p.operation = core::Operation::transposed;
  p.dtype = core::DType::f32;
  p.x_contiguous = p.y_contiguous = true;
  p.x_stride = p.y_stride = {0, 0, 0};
  if (rng.chance(80)) p.stride = 1, p.output_padding = 0;
  return p;
}

TEST(FlippedPlan, IsTheTransposedProduct) {
  judge::Rng rng(41);
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    const core::Problem p = drawn(rng);
    if (!core::validate(p).ok() || p.output_elements() == 0 || p.output_elements() > 3000 ||
        p.x_elements() > 20000 || p.weight_elements() > 20000) {
      continue;
    }
    const std::optional<core::Problem> form = simt::flipped_form(p);
    if (!form) continue;
    ++taken;
    ASSERT_TRUE(core::validate(*form).ok()) << text(p) << " as " << text(*form);
    ASSERT_EQ(form->lout(), p.l) << text(p);
    ASSERT_EQ(form->output_elements(), p.output_elements()) << text(p);
    const std::vector<float> x = integers(p.x_elements(), 1), w = integers(p.weight_elements(), 5);
    const std::vector<float> bias = integers(p.cout, 3), reversed = flipped(p, w);
    const plan::Operands asked{x.data(), w.data(), bias.data(), nullptr, nullptr};
    const plan::Operands of_form{nullptr, reversed.data(), bias.data(), x.data(), nullptr};
    for (int64_t e = 0; e < p.output_elements(); ++e) {
      const reference::Element one = reference::element_at(p, asked, e),
                               other = reference::element_at(*form, of_form, e);
      ASSERT_EQ(one.value, other.value) << text(p) << ", element " << e;
      ASSERT_EQ(one.terms, other.terms) << text(p) << ", element " << e;
    }
  }
  EXPECT_GT(taken, 300);
}

TEST(FlippedPlan, SaysWhatItDoesNotTake) {
  EXPECT_EQ(cuda_test::refusal(kSimtFlipped, "n1 ci4 co4 l100 k3 s1 p1 d3 g4 f32", "h100", true), "");
  for (const char* other : {"n1 ci4 co4 l100 k3 s2 p1 g4 f32", "n1 ci4 co4 l100 k3 s1 p3 g4 f32",
                            "n1 ci4 co4 l100 k3 s1 p1 d2 op1 g4 f32"}) {
    EXPECT_NE(cuda_test::refusal(kSimtFlipped, other, "h100", true).find("stride 1"), std::string::npos)
        << other;
  }
}

}  // namespace
}  // namespace tconv::cuda
