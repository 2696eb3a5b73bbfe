// The transposed form of strided products against the definition, product by product.
#include "cuda/host/transposed_form.hpp"

#include <gtest/gtest.h>

#include "cuda/refusal.hpp"

namespace tconv::cuda {
namespace {

// Which element of dy and which weight one product of dx[ci, i] multiplies: by co and k of the definition.
TEST(TransposedForm, HasTheProductsOfTheDefinition) {
  judge::Rng rng(3);
  int strided = 0;
  while (strided < 300) {
    const core::Problem p = cuda_test::draw_transposed(rng);
    if (p.operation == core::Operation::forward || !no_transposed_form(p).empty()) continue;
    ++strided;
    const core::Problem f = transposed_form(p);
    const WeightSteps w = weight_steps(p);
    ASSERT_EQ(f.lout(), p.l) << text(p);
    ASSERT_EQ(f.l, p.lout()) << text(p);
    const int64_t ci = rng.between(0, p.cin - 1), co = rng.between(0, p.cout_per_group() - 1);
    const int64_t group = ci / p.cin_per_group(), inner = ci % p.cin_per_group();
    for (int64_t i = 0; i < std::min<int64_t>(p.l, 50); ++i) {
      for (int64_t k = 0; k < p.k; ++k) {
        const int64_t o = i - p.padding + p.dilation * k, tap = p.k - 1 - k;
        // The form's input of output i and its tap: o' + padding - tap*dilation = i' at stride 1.
        EXPECT_EQ(i + f.padding - tap * f.dilation, o) << text(p);
        const int64_t place = w.first + group * w.group + co * w.cin + inner * w.cout + tap * w.tap;
        EXPECT_EQ(place, (ci * p.cout_per_group() + co) * p.k + k) << text(p);
      }
    }
  }
}

TEST(TransposedForm, OfATransposedProductIsItself) {
  const core::Problem p = core::parse("n2 ci6 co4 l9 k3 s2 p1 g2 bias f32").value();
  EXPECT_EQ(transposed_form(p), p);
  const WeightSteps w = weight_steps(p);
  EXPECT_EQ(w.first + w.group + w.cin + w.cout + 2 * w.tap, ((3 + 1) * 2 + 1) * 3 + 2);
  EXPECT_NE(no_transposed_form(core::parse("gx n2 ci6 co4 l9 k3 s2 f32").value()), "");
  EXPECT_NE(no_transposed_form(core::parse("gw n2 ci6 co4 l9 k3 f32").value()), "");
}

}  // namespace
}  // namespace tconv::cuda
