// The transposed form of strided products against the definition, product by product.
#include "cuda/host/transposed_form.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/refusal.hpp"

namespace tconv::cuda {
namespace {

// Of output i and tap k of the definition: which element of dy and which weight the form multiplies.
void expect_products(const core::Problem& p, const TransposedForm& form, int64_t i) {
  const core::Problem& f = form.product;
  const WeightSteps& w = form.weights;
  const int64_t apart = -w.step, taps = f.k;
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t phase = k % apart, tap = taps - 1 - k / apart;
    ASSERT_LT(phase, w.phases) << text(p);
    EXPECT_EQ(w.first + phase + w.step * tap, k) << text(p);
    const int64_t v = i + f.padding - tap * f.dilation, o = p.stride * i - p.padding + p.dilation * k;
    if (form.planes) {
      EXPECT_GE(v, 0) << text(p);
      EXPECT_LT(v, f.l) << text(p);
      EXPECT_EQ(form.deep.stride * v + form.deep.dilation * phase - form.deep.padding, o) << text(p);
    } else {
      EXPECT_EQ(v, o) << text(p);
    }
  }
}

TEST(TransposedForm, HasTheProductsOfTheDefinition) {
  judge::Rng rng(3);
  int planes = 0, as_it_is = 0, ragged = 0;
  while (planes < 600) {
    const core::Problem p = cuda_test::draw_transposed(rng);
    if (p.operation == core::Operation::transposed || !no_transposed_form(p).empty()) continue;
    const TransposedForm form = transposed_form(p);
    const core::Problem& f = form.product;
    ++(form.planes ? planes : as_it_is);
    ragged += form.deep.ragged ? 1 : 0;
    ASSERT_EQ(f.lout(), p.l) << text(p);
    ASSERT_EQ(f.cin, p.cout * form.weights.phases) << text(p);
    ASSERT_EQ(f.cout, p.cin) << text(p);
    // Weight (group, ci, co) of the form: the definition's (ci, co), its channels exchanged.
    const int64_t ci = rng.between(0, p.cin - 1), co = rng.between(0, p.cout_per_group() - 1);
    const int64_t group = ci / p.cin_per_group(), inner = ci % p.cin_per_group();
    const int64_t place = group * form.weights.group + co * form.weights.cin + inner * form.weights.cout;
    EXPECT_EQ(place, (ci * p.cout_per_group() + co) * p.k) << text(p);
    for (int64_t i : {int64_t{0}, p.l / 2, p.l - 1}) expect_products(p, form, i);
    if (!form.planes) continue;
    const auto steps = f.x_steps();
    EXPECT_EQ(steps[1] * static_cast<int64_t>(size_of(p.dtype)) % 16, 0) << text(p);
    EXPECT_GE(steps[1], f.l) << text(p);
    EXPECT_EQ(form.planes_bytes, p.n * steps[0] * static_cast<int64_t>(size_of(p.dtype))) << text(p);
  }
  EXPECT_GT(as_it_is, 50);
  EXPECT_GT(ragged, 50);
}

TEST(TransposedForm, OfATransposedProductIsItself) {
  const core::Problem p = core::parse("n2 ci6 co4 l9 k3 s2 p1 g2 bias f32").value();
  const TransposedForm form = transposed_form(p);
  EXPECT_EQ(form.product, p);
  EXPECT_EQ(form.deep.phases, 0);
  EXPECT_EQ(form.planes_bytes, 0);
  const WeightSteps& w = form.weights;
  EXPECT_EQ(w.group + w.cin + w.cout + w.first + 2 * w.step, ((3 + 1) * 2 + 1) * 3 + 2);
  EXPECT_NE(no_transposed_form(core::parse("gw n2 ci6 co4 l9 k3 f32").value()), "");
}

// Products of such steps would leave 63 bits.
TEST(TransposedForm, IsNotTurnedWhereRowsLieFarApart) {
  const auto refusal = [](const char* words) { return no_turned_form(core::parse(words).value()); };
  EXPECT_EQ(refusal("n1 ci2 co2 l64 k3 s1 p1 xs64,64,1 bf16"), "");
  EXPECT_NE(refusal("n1 ci4 co2 l64 k3 s1 p1 xs64,2305843009213693952,1 bf16").find("far apart"),
            std::string::npos);
  EXPECT_NE(refusal("n2 ci2 co2 l64 k3 s1 p1 xs4611686018427387840,64,1 bf16").find("far apart"),
            std::string::npos);
  // A group's rows begin where the one's before would go on, also where steps are no multiples of 8.
  EXPECT_EQ(refusal("n1 ci16 co2 l64 k3 s1 p1 g2 xs1040,65,1 bf16"), "");
  EXPECT_NE(refusal("n1 ci24 co2 l64 k3 s1 p1 g2 xs1560,65,1 bf16").find("groups"), std::string::npos);
}

}  // namespace
}  // namespace tconv::cuda
