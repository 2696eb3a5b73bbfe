// Which problems need the kernel that stores biases of -0.0: all that have outputs without products, and no
// usual layer, which would pay for a launch.
#include "cuda/host/bias_alone.hpp"

#include <gtest/gtest.h>

#include "judge/draw.hpp"

namespace tconv::cuda {
namespace {

// Whether an output has no product; of_residues: of residues that a tap reaches alone.
bool has_bias_alone(const core::Problem& p, bool of_reached) {
  for (int64_t o = 0; o < p.lout(); ++o) {
    bool reached = false, any = false;
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t at = o + p.padding - k * p.dilation;
      if ((at % p.stride + p.stride) % p.stride != 0) continue;
      reached = true;
      any = any || (at >= 0 && at / p.stride < p.l);
    }
    if (!any && (reached || !of_reached)) return true;
  }
  return false;
}

TEST(BiasAlone, NoOutputIsLeftOut) {
  judge::Rng rng(3);
  int needed = 0, spared = 0, idle = 0;
  for (int i = 0; i < 200000; ++i) {
    core::Problem p;
    p.n = p.cin = p.cout = 1;
    p.has_bias = true;
    p.l = rng.between(1, 9), p.k = rng.between(1, 7);
    p.stride = rng.between(1, 6), p.dilation = rng.between(1, 6);
    p.padding = rng.between(0, 5), p.output_padding = rng.between(0, 5);
    if (!core::validate(p).ok() || p.lout() <= 0) continue;
    for (const bool of_reached : {false, true}) {
      const bool there = has_bias_alone(p, of_reached);
      const bool stored = needs_bias_alone(p, of_reached ? BiasStored::of_residues : BiasStored::none);
      ASSERT_TRUE(stored || !there) << core::text(p);
      ++(there ? needed : stored ? idle : spared);
    }
    p.has_bias = false;
    ASSERT_FALSE(needs_bias_alone(p, BiasStored::none));
  }
  EXPECT_GT(needed, 10000);
  EXPECT_GT(spared, 10000);
  EXPECT_LT(idle, needed / 10);  // for nothing: x is shorter than the taps reach
}

TEST(BiasAlone, NoOutputOfAStridedProductIsLeftOut) {
  judge::Rng rng(4);
  int needed = 0, spared = 0;
  for (int i = 0; i < 50000; ++i) {
    core::Problem p;
    p.operation = core::Operation::strided;
    p.n = p.cin = p.cout = 1;
    p.has_bias = true;
    p.l = rng.between(1, 9), p.k = rng.between(1, 7);
    p.stride = rng.between(1, 6), p.dilation = rng.between(1, 6);
    p.padding = rng.between(0, 9), p.output_padding = rng.between(0, 5);
    if (!core::validate(p).ok() || p.lout() <= 0) continue;
    bool there = false;
    for (int64_t x = 0; x < p.l; ++x) {
      bool any = false;
      for (int64_t k = 0; k < p.k; ++k) {
        const int64_t o = p.stride * x - p.padding + p.dilation * k;
        any = any || (o >= 0 && o < p.lout());
      }
      there = there || !any;
    }
    const bool stored = needs_bias_alone(p, BiasStored::none);
    ASSERT_TRUE(stored || !there) << core::text(p);
    ++(there ? needed : spared);
    EXPECT_TRUE(!stored || there || p.dilation > p.lout()) << core::text(p);
  }
  EXPECT_GT(needed, 100);
  EXPECT_GT(spared, 10000);
}

TEST(BiasAlone, UsualLayersNeedNoLaunch) {
  for (const char* text :
       {"n1 ci512 co256 l800 k16 s8 p4 bias f32", "n1 ci64 co32 l100 k4 s2 p1 bias f32",
        "n1 ci64 co64 l100 k3 s2 p1 op1 bias f32", "n1 ci128 co128 l999 k3 s1 p1 bias f32",
        "n1 ci32 co64 l999 k5 s1 p0 d3 bias f32", "n1 ci1026 co1 l224 k1024 s256 p0 bias f32",
        "n1 ci24 co24 l333 k12 s5 p3 op1 g24 bias f32"}) {
    EXPECT_FALSE(needs_bias_alone(core::parse(text).value(), BiasStored::none)) << text;
  }
}

}  // namespace
}  // namespace tconv::cuda
