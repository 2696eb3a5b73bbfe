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

// Pairs (tap, input) that reach output o, by the definition alone.
std::set<std::pair<int64_t, int64_t>> reached(const Problem& p, int64_t o) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t reach = o + p.padding - k * p.dilation;
    if (reach >= 0 && reach % p.stride == 0 && reach / p.stride < p.l) pairs.insert({k, reach / p.stride});
  }
  return pairs;
}

TEST(Polyphase, TapsOfEveryOutputAreThoseOfTheDefinition) {
  for (uint64_t i = 0; i < 3'000; ++i) {
    const Problem p = draw_forward(i);
    const auto residues = residues_of(p);
    ASSERT_EQ(static_cast<int64_t>(residues.size()), std::min(p.stride, p.lout())) << text(p);
    int64_t outputs = 0;
    for (const Residue& r : residues) {
      outputs += r.count;
      for (int64_t t = 0; t < r.count; ++t) {
        const int64_t o = r.first + p.stride * t;
        ASSERT_LT(o, p.lout()) << text(p);
        ASSERT_EQ((o + p.padding) % p.stride, r.r) << text(p);
        std::set<std::pair<int64_t, int64_t>> pairs;
        for (const Tap& tap : r.taps) {
          const int64_t in = r.q_first + t + tap.shift;
          if (in >= 0 && in < p.l) pairs.insert({tap.k, in});
        }
        ASSERT_EQ(pairs, reached(p, o)) << text(p) << " output " << o;
      }
    }
    ASSERT_EQ(outputs, p.lout()) << text(p);
  }
}

TEST(Polyphase, PlacesAndOrderAreAsDocumented) {
  for (uint64_t i = 0; i < 1'000; ++i) {
    const auto residues = residues_of(draw_forward(i));
    for (std::size_t j = 0; j < residues.size(); ++j) {
      EXPECT_EQ(residues[j].first, static_cast<int64_t>(j));
      for (std::size_t t = 1; t < residues[j].taps.size(); ++t) {
        EXPECT_LT(residues[j].taps[t - 1].k, residues[j].taps[t].k);
        EXPECT_GT(residues[j].taps[t - 1].shift, residues[j].taps[t].shift);
      }
      for (const Tap& tap : residues[j].taps) EXPECT_LE(tap.shift, 0);
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
    const TapGrid grid(p);
    double all = 0;
    for (int64_t o = 0; o < p.lout(); ++o) {
      const TapGrid::Run run = grid.run_of(o);
      std::set<std::pair<int64_t, int64_t>> pairs;
      for (int64_t j = 0; j < run.count; ++j) {
        pairs.insert({run.k + j * grid.k_step(), run.i - j * grid.x_step()});
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
  EXPECT_EQ(residues_of(p).size(), 3u);
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
