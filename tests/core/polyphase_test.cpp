// The polyphase form, the output length and the count of operations against brute force.
#include "core/polyphase.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "judge/draw.hpp"

namespace tconv::core {
namespace {

Problem draw_forward(uint64_t i) {
  judge::Rng rng(31, i);
  return judge::draw_valid(rng, {.gradients = false, .typical = 20'000});
}

// Pairs (tap, input) that reach output o, straight from the definition.
std::set<std::pair<int64_t, int64_t>> reached(const Problem& p, int64_t o) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t reach = o + p.padding - k * p.dilation;
    if (reach >= 0 && reach % p.stride == 0 && reach / p.stride < p.l) pairs.insert({k, reach / p.stride});
  }
  return pairs;
}

// The header's loops, without x's ends.
TEST(Polyphase, LoopsMeetEveryProductOnce) {
  for (uint64_t i = 0; i < 3'000; ++i) {
    const Problem p = draw_forward(i);
    const Polyphase form(p);
    std::map<int64_t, std::set<std::pair<int64_t, int64_t>>> outputs;
    int64_t products = 0, longest = 0, longer = 0;
    for (int64_t a = 0; a < form.count; ++a) {
      longest = std::max(longest, form.taps_of(a));
      longer += form.taps_of(a) == form.taps ? 1 : 0;
      for (int64_t j = 0; j < form.taps_of(a); ++j) {
        for (int64_t x = 0; x < p.l; ++x) {
          const int64_t u = x + j * form.step, o = form.stride * u + a * form.dilation - form.padding;
          if (o < 0 || o >= p.lout()) continue;
          ++products;
          outputs[o].insert({a + j * form.tap_stride, x});
          ASSERT_EQ(form.phase_of(o + p.padding), a) << text(p);
          ASSERT_EQ(form.position_of(o + p.padding, a), u) << text(p);
        }
      }
    }
    ASSERT_EQ(longest, form.taps) << text(p);
    ASSERT_EQ(longer, form.longer()) << text(p);
    int64_t met = 0;
    for (int64_t o = 0; o < p.lout(); ++o) {
      ASSERT_EQ(outputs[o], reached(p, o)) << text(p) << " output " << o;
      met += static_cast<int64_t>(outputs[o].size());
    }
    ASSERT_EQ(met, products) << text(p);
  }
}

TEST(Polyphase, OutputsWithoutAPhaseHaveNoTaps) {
  for (uint64_t i = 0; i < 1'000; ++i) {
    const Problem p = draw_forward(i);
    const Polyphase form(p);
    for (int64_t o = 0; o < p.lout(); ++o) {
      bool any = false;
      for (int64_t k = 0; k < p.k; ++k) any = any || (o + p.padding - k * p.dilation) % p.stride == 0;
      ASSERT_EQ(form.phase_of(o + p.padding) >= 0, any) << text(p) << " output " << o;
    }
  }
}

// By the definition, in 128 bits.
std::set<std::pair<int64_t, int64_t>> reached_far(const Problem& p, int64_t o) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (int64_t k = 0; k < p.k; ++k) {
    const __int128 reach = static_cast<__int128>(o) + p.padding - static_cast<__int128>(k) * p.dilation;
    if (reach >= 0 && reach % p.stride == 0 && reach / p.stride < p.l) {
      pairs.insert({k, static_cast<int64_t>(reach / p.stride)});
    }
  }
  return pairs;
}

TEST(Polyphase, ClosedFormHasTheTapsOfTheDefinition) {
  for (uint64_t i = 0; i < 6'000; ++i) {
    judge::Rng rng(32, i);
    const Problem p = i % 2 == 0 ? draw_forward(i) : judge::draw_far(rng, {.gradients = false});
    const Polyphase form(p);
    double all = 0;
    for (int64_t o = 0; o < p.lout(); ++o) {
      const Polyphase::Taps taps = form.taps_at(o);
      std::set<std::pair<int64_t, int64_t>> pairs;
      for (int64_t j = 0; j < taps.count; ++j) {
        pairs.insert({taps.k + j * form.tap_stride, taps.i - j * form.step});
      }
      ASSERT_EQ(pairs, reached_far(p, o)) << text(p) << " output " << o;
      all += static_cast<double>(pairs.size());
    }
    const double flops = 2 * all * static_cast<double>(p.n * p.cout * p.cin_per_group());
    ASSERT_EQ(work_of(p).flops, flops + (p.has_bias ? static_cast<double>(p.y_elements()) : 0)) << text(p);
  }
}

TEST(Polyphase, InversesModuloAnyNumber) {
  constexpr int64_t kLargest = 9223372036854775807;
  for (const auto& [value, m] : std::initializer_list<std::pair<int64_t, int64_t>>{
           {1, 1}, {5, 1}, {3, 7}, {10, 7}, {kLargest - 1, kLargest}, {2, kLargest}, {kLargest, 2}}) {
    const auto product =
        static_cast<unsigned __int128>(value) * static_cast<uint64_t>(inverse_modulo(value, m));
    EXPECT_EQ(static_cast<int64_t>(product % static_cast<uint64_t>(m)), m == 1 ? 0 : 1) << value << " " << m;
  }
}

TEST(Polyphase, AHugeStrideCostsNoMemory) {
  const Problem p = parse("ci1 co1 l1 k3 s1000000000000 p0").value();
  const Polyphase form(p);
  EXPECT_EQ(form.count, 3);
  EXPECT_EQ(form.phase_of(2), 2);
}

TEST(Polyphase, FloorAndCeilingOfNegativeNumbers) {
  for (int64_t b = 1; b < 8; ++b) {
    for (int64_t a = -40; a <= 40; ++a) {
      int64_t floor = -41;
      while ((floor + 1) * b <= a) ++floor;
      EXPECT_EQ(floor_div(a, b), floor) << a << "/" << b;
      EXPECT_EQ(ceil_div(a, b), floor * b == a ? floor : floor + 1) << a << "/" << b;
    }
  }
}

TEST(Problem, OutputLengthIsTheFurthestReachedPositionOfTheDefinition) {
  for (uint64_t i = 0; i < 1'000; ++i) {
    Problem p = draw_forward(i);
    p.padding = 0;
    p.output_padding = 0;
    // The last input's last tap is the last output.
    EXPECT_EQ(reached(p, p.lout() - 1).count({p.k - 1, p.l - 1}), 1u) << text(p);
  }
}

TEST(Problem, WorkCountsTheProductsThatTheFormulaHas) {
  for (uint64_t i = 0; i < 1'000; ++i) {
    const Problem p = draw_forward(i);
    double pairs = 0;
    for (int64_t o = 0; o < p.lout(); ++o) pairs += static_cast<double>(reached(p, o).size());
    const double products = pairs * static_cast<double>(p.n * p.cout * p.cin_per_group());
    const double y = static_cast<double>(p.y_elements());
    EXPECT_EQ(work_of(p).flops, 2 * products + (p.has_bias ? y : 0)) << text(p);
    const double elements = static_cast<double>(p.x_elements() + p.y_elements() + p.weight_elements() +
                                                (p.has_bias ? p.cout : 0));
    EXPECT_EQ(work_of(p).bytes, elements * static_cast<double>(size_of(p.dtype))) << text(p);
  }
}

TEST(Problem, AWeightGradientWithABiasSumsOneTensorMore) {
  for (uint64_t i = 0; i < 300; ++i) {
    Problem p = draw_forward(i);
    p.operation = Operation::weight;
    p.has_bias = false;
    const Work without = work_of(p);
    const auto element = static_cast<double>(size_of(p.dtype));
    p.has_bias = true;
    EXPECT_EQ(work_of(p).flops, without.flops + static_cast<double>(p.y_elements())) << text(p);
    EXPECT_EQ(work_of(p).bytes, without.bytes + element * static_cast<double>(p.cout)) << text(p);
    Problem sums = grad_bias_of(p);
    ASSERT_TRUE(validate(sums).ok()) << text(p) << ": " << text(sums);
    EXPECT_EQ(sums.operation, Operation::bias);
    EXPECT_EQ(sums.lout(), p.lout()) << text(p);
    EXPECT_EQ(sums.output_elements(), p.cout);
    p.bias_of_x = true;
    EXPECT_EQ(work_of(p).flops, without.flops + static_cast<double>(p.x_elements())) << text(p);
    EXPECT_EQ(work_of(p).bytes, without.bytes + element * static_cast<double>(p.cin)) << text(p);
    sums = grad_bias_of(p);
    ASSERT_TRUE(validate(sums).ok()) << text(p) << ": " << text(sums);
    EXPECT_EQ(sums.y_steps(), p.x_steps()) << text(p);
    EXPECT_EQ(sums.lout(), p.l) << text(p);
    EXPECT_EQ(sums.output_elements(), p.cin);
  }
}

TEST(Problem, SpanOfXIsOnePastTheFurthestElement) {
  for (uint64_t i = 0; i < 2'000; ++i) {
    const Problem p = draw_forward(i);
    const auto steps = p.x_steps();
    int64_t furthest = -1;
    for (int64_t n : {int64_t{0}, p.n - 1}) {
      if (p.n > 0)
        furthest = std::max(furthest, n * steps[0] + (p.cin - 1) * steps[1] + (p.l - 1) * steps[2]);
    }
    EXPECT_EQ(p.x_span(), furthest + 1) << text(p);
  }
}

}  // namespace
}  // namespace tconv::core
