// A Conv1d as a problem: sizes, and that its sums are those of Conv1d's own definition.
#include "core/conv1d.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "judge/rng.hpp"
#include "reference/reference.hpp"

namespace tconv::core {
namespace {

// The numbers of a Conv1d; parse() reads them as any line's.
Problem call_of(const char* line) {
  return parse(line).value();
}

TEST(Conv1d, SizesOfTheProblem) {
  EXPECT_EQ(text(parse("conv1d n2 ci80 co512 l100 k7 s1 p3 bias f16").value()),
            "strided n2 ci512 co80 l100 k7 s1 p3 bias f16");
  // 10 + 2 - 2*2 - 1 = 7 = 2*3 + 1: four outputs, one position of the padded input unread.
  EXPECT_EQ(text(parse("conv1d ci4 co6 l10 k3 s3 p1 d2 g2 xs1,2,3").value()),
            "strided n1 ci6 co4 l3 k3 s3 p1 op1 d2 g2 ys1,2,3 f32");
  EXPECT_EQ(text(parse("conv1d_gx ci4 co6 l10 k3 s3 p1 d2 g2 bias ys1,2,3").value()),
            "n1 ci6 co4 l3 k3 s3 p1 op1 d2 g2 xs1,2,3 f32");
  EXPECT_EQ(text(parse("conv1d_gw ci4 co6 l10 k3 s3 p1 d2 g2 bias xs1,2,3 ys4,5,6").value()),
            "weight n1 ci6 co4 l3 k3 s3 p1 op1 d2 g2 xbias xs4,5,6 ys1,2,3 f32");
  EXPECT_EQ(parse("conv1d_gw ci4 co6 l10 k3 xbias").status().message(),
            "xbias is given: the gradient of a Conv1d's bias sums the gradient of its output, as bias says");
  EXPECT_EQ(text(parse("conv1d_gb n3 ci4 co6 l10 k3 s3 p1 d2 g2 ys4,5,6 tf32").value()),
            "dbias n3 ci1 co6 l3 k1 s1 p0 ys4,5,6 f32 tf32");
}

TEST(Conv1d, RefusalsNameTheCallsArguments) {
  const struct {
    const char *line, *refusal;
  } table[] = {
      {"ci9 co8 l5 k3 g2", "groups is 2: must divide cin, which is 9"},
      {"ci8 co9 l5 k3 g2", "groups is 2: must divide cout, which is 9"},
      {"ci0 co8 l5 k3", "cin is 0: must be 1 or more"},
      {"ci8 co8 l0 k3", "l is 0: must be 1 or more"},
      {"ci8 co8 l5 k3 s0", "stride is 0: must be 1 or more"},
      {"ci8 co8 l5 k3 op1", "output_padding is 1: must be 0: a Conv1d has none"},
      {"ci8 co8 l5 k4 d2",
       "k is 4: l+2*padding is 5, shorter than the kernel, which reaches over dilation*(k-1)+1 = 7 "
       "positions"},
      {"ci8 co8 l5 k4611686018427387904 d4",
       "k is 4611686018427387904: l+2*padding is 5, shorter than the kernel, which reaches over "
       "dilation*(k-1)+1 = 2^63 or more positions"},
      {"ci8 co8 l5 k3 p4611686018427387904", "the padded length overflows 63 bits: make the problem smaller"},
      {"ci1 co1 l4611686018427387904 k1",
       "the size of x in bytes overflows 63 bits: make the problem smaller"},
      {"ci1 co4611686018427387904 l1 k1",
       "the size of the weight in bytes overflows 63 bits: make the problem smaller"},
      {"ci8 co8 l5 k3 ys1,1,1", "y_stride is given: operation conv1d does not read y"},
      {"ci8 co8 l5 k3 f16 tf32", "precision is tf32: only dtype f32 supports it, and dtype is f16"},
  };
  for (const auto& row : table) {
    const auto made = conv1d_problem(call_of(row.line), Conv1dPass::forward);
    ASSERT_FALSE(made.ok()) << row.line;
    EXPECT_EQ(made.status().message(), row.refusal) << row.line;
    EXPECT_EQ(made.status().code(), Code::invalid_problem);
    EXPECT_EQ(parse(std::string("conv1d ") + row.line).status().message(), row.refusal);
  }
  Problem call = call_of("ci8 co8 l5 k3 xs1,1,1");
  EXPECT_EQ(conv1d_problem(call, Conv1dPass::grad_input).status().message(),
            "x_stride is given: operation conv1d_gx does not read x");
  call.x_stride[2] = -1;
  EXPECT_EQ(conv1d_problem(call, Conv1dPass::forward).status().message(),
            "x_stride[2] is -1: must be 0 or more");
}

TEST(Conv1d, WhatComesOutIsValid) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int valid = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    judge::Rng rng(5, i);
    const auto number = [&] { return rng.log_between(1, rng.chance(30) ? kMost / 2 : 300); };
    Problem call;
    call.groups = rng.chance(70) ? 1 : rng.between(1, 5);
    call.n = rng.between(0, 3), call.cin = call.groups * rng.between(1, 9);
    call.cout = call.groups * rng.between(1, 9);
    call.l = number(), call.k = number(), call.stride = number(), call.dilation = number();
    call.padding = rng.chance(50) ? 0 : number();
    const auto pass = static_cast<Conv1dPass>(rng.between(0, 3));
    const auto made = conv1d_problem(call, pass);
    if (!made.ok()) continue;
    ++valid;
    const Problem& p = made.value();
    ASSERT_TRUE(validate(p).ok()) << text(p) << ": " << validate(p).message();
    if (pass == Conv1dPass::grad_bias) continue;
    ASSERT_EQ(p.lout(), call.l) << text(p);
    ASSERT_EQ(p.l, (call.l + 2 * call.padding - call.dilation * (call.k - 1) - 1) / call.stride + 1);
  }
  EXPECT_GT(valid, 4'000);
}

struct Tensors {
  std::vector<double> x, w, bias, y;
};

// y by Conv1d's own definition, the weight being (cout, cin/groups, k); f adds one product.
template <class F>
void each_product(const Problem& c, int64_t lout, F&& f) {
  const int64_t cin_g = c.cin / c.groups, cout_g = c.cout / c.groups;
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t co = 0; co < c.cout; ++co) {
      for (int64_t o = 0; o < lout; ++o) {
        for (int64_t ci = 0; ci < cin_g; ++ci) {
          for (int64_t k = 0; k < c.k; ++k) {
            const int64_t i = c.stride * o - c.padding + c.dilation * k;
            if (i < 0 || i >= c.l) continue;
            f(static_cast<std::size_t>((n * c.cin + co / cout_g * cin_g + ci) * c.l + i),
              static_cast<std::size_t>((co * cin_g + ci) * c.k + k),
              static_cast<std::size_t>((n * c.cout + co) * lout + o));
          }
        }
      }
    }
  }
}

TEST(Conv1d, EveryPassIsThatOfItsDefinition) {
  for (uint64_t i = 0; i < 300; ++i) {
    judge::Rng rng(6, i);
    Problem c;
    c.dtype = DType::f64;
    c.groups = rng.between(1, 3);
    c.n = rng.between(1, 2), c.cin = c.groups * rng.between(1, 3), c.cout = c.groups * rng.between(1, 3);
    c.l = rng.between(1, 12), c.k = rng.between(1, 4), c.stride = rng.between(1, 4);
    c.dilation = rng.between(1, 3), c.padding = rng.between(0, 5);
    c.has_bias = rng.chance(50);
    const auto forward = conv1d_problem(c, Conv1dPass::forward);
    if (!forward.ok()) continue;
    const int64_t lout = forward.value().l;
    const auto numbers = [&](int64_t count) {
      std::vector<double> v(static_cast<std::size_t>(count));
      for (double& each : v) each = static_cast<double>(rng.between(-4, 4));
      return v;
    };
    Tensors t{numbers(c.n * c.cin * c.l), numbers(c.cout * c.cin / c.groups * c.k), numbers(c.cout),
              numbers(c.n * c.cout * lout)};
    for (Conv1dPass pass :
         {Conv1dPass::forward, Conv1dPass::grad_input, Conv1dPass::grad_weight, Conv1dPass::grad_bias}) {
      const Problem p = conv1d_problem(c, pass).value();
      std::vector<double> wanted(static_cast<std::size_t>(p.output_elements()), 0.0);
      std::vector<double> sums(static_cast<std::size_t>(c.cout), 0.0);
      for (std::size_t j = 0; j < t.y.size(); ++j) {
        sums[j / static_cast<std::size_t>(lout) % static_cast<std::size_t>(c.cout)] += t.y[j];
      }
      plan::Operands in;
      if (pass == Conv1dPass::forward) {
        for (std::size_t j = 0; c.has_bias && j < wanted.size(); ++j) {
          wanted[j] = t.bias[j / static_cast<std::size_t>(lout) % static_cast<std::size_t>(c.cout)];
        }
        each_product(c, lout, [&](auto x, auto w, auto y) { wanted[y] += t.x[x] * t.w[w]; });
        in.grad_output = t.x.data(), in.weight = t.w.data(), in.bias = t.bias.data();
      } else if (pass == Conv1dPass::grad_input) {
        each_product(c, lout, [&](auto x, auto w, auto y) { wanted[x] += t.y[y] * t.w[w]; });
        in.x = t.y.data(), in.weight = t.w.data();
      } else if (pass == Conv1dPass::grad_weight) {
        each_product(c, lout, [&](auto x, auto w, auto y) { wanted[w] += t.x[x] * t.y[y]; });
        in.grad_output = t.x.data(), in.x = t.y.data();
        ASSERT_EQ(p.grad_bias_elements(), c.has_bias ? c.cout : 0) << text(p);
        if (c.has_bias) wanted.insert(wanted.end(), sums.begin(), sums.end());
      } else {
        wanted = sums;
        in.grad_output = t.y.data();
      }
      for (std::size_t j = 0; j < wanted.size(); ++j) {
        ASSERT_EQ(reference::element_at(p, in, static_cast<int64_t>(j)).value, wanted[j])
            << name_of(pass) << " as " << text(p) << " at " << j;
      }
    }
  }
}

}  // namespace
}  // namespace tconv::core
