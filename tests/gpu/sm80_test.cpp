// cuda.sm80.dense on data that a split of float32 or a rounding to tf32 could get wrong, element by element
// against float64; and every configuration against every other.
#include <bit>
#include <functional>
#include <limits>

#include "cuda/entries.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "gpu/device.hpp"
#include "judge/truth.hpp"

namespace tconv::gpu_test {
namespace {

constexpr const char* kKernel = "cuda.sm80.dense";
constexpr float kInf = std::numeric_limits<float>::infinity();

class Sm80 : public Gpu {};

// A value of the element at (channel, position) for x, (channel, cout, tap) flattened for the weight.
using Value = std::function<float(int64_t channel, int64_t at, double random)>;

void set(Operands& o, const Value& x, const Value& w) {
  const core::Problem& p = o.problem;
  auto put = [](std::vector<std::byte>& data, int64_t channels, int64_t each, const Value& value) {
    float* f = reinterpret_cast<float*>(data.data());
    for (std::size_t i = 0; i < data.size() / 4; ++i) {
      const auto place = static_cast<int64_t>(i);
      f[i] = value(place / each % channels, place % each, f[i]);
    }
  };
  put(o.x, p.cin, p.l, x);
  put(o.weight, p.cin, p.cout_per_group() * p.k, w);
  put(o.bias, 1, p.cout, [](int64_t, int64_t, double) { return 0.0f; });
  o.x_device.put(o.x);
  o.weight_device.put(o.weight);
  o.bias_device.put(o.bias);
}

// Worst-case bound: this data makes no random walk.
void expect_right(const Operands& o) {
  const PlanPointer plan = plan_of(core::text(o.problem), kKernel);
  ASSERT_NE(plan, nullptr);
  const std::vector<std::byte> y = run_once(plan.get(), o);
  judge::Arithmetic arithmetic;
  arithmetic.unbiased = false;
  arithmetic.tf32 = o.problem.precision == core::Precision::tf32;
  const plan::Operands host{o.x.data(), o.weight.data(), o.bias.data(), nullptr, nullptr};
  const auto truth = judge::Truth::all(o.problem, host, arithmetic.tf32);
  const double terms = static_cast<double>(o.problem.cin_per_group() * o.problem.k);
  const judge::Bound bound(o.problem, arithmetic, terms);
  int64_t wrong = 0;
  for (int64_t i = 0; i < truth.count(); ++i) {
    const double got = reference::load(core::DType::f32, y.data(), truth.index(i));
    if (bound.right(got, truth.at(i))) continue;
    if (++wrong <= 3) {
      ADD_FAILURE() << core::text(o.problem) << ": element " << truth.index(i) << " is " << got << ", not "
                    << truth.at(i).value << " +- " << bound.of(truth.at(i));
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << truth.count();
}

// Both precisions, a split and an unsplit plan, one and two classes of phases.
void expect_right(const Value& x, const Value& w, bool tf32 = true) {
  for (const char* shape :
       {"n2 ci48 co40 l301 k5 s2 p1 ", "n1 ci160 co32 l40 k8 s4 p2 ", "n2 ci32 co70 l517 k3 s1 p0 d2 "}) {
    for (const char* mode : {"f32", "f32 tf32"}) {
      if (!tf32 && std::string(mode) != "f32") continue;
      Operands o(std::string(shape) + mode);
      set(o, x, w);
      expect_right(o);
    }
  }
}

float plain(int64_t, int64_t, double random) {
  return static_cast<float>(random);
}

TEST_F(Sm80, CancellingSums) {
  expect_right([](int64_t c, int64_t, double) { return c % 2 == 0 ? 1.0f : -1.0f; },
               [](int64_t c, int64_t at, double r) {
                 return static_cast<float>(1000.0 + static_cast<double>(at % 7) +
                                           static_cast<double>(c % 2) * r * 1e-3);
               });
}

TEST_F(Sm80, LargeBesideSmallThatAnOutputSeesAlone) {
  expect_right(
      [](int64_t c, int64_t, double r) { return static_cast<float>(r * (c % 2 == 0 ? 1e30 : 1e-30)); },
      [](int64_t c, int64_t at, double r) { return c % 2 == 0 && at < 60 ? 0.0f : static_cast<float>(r); });
}

TEST_F(Sm80, ChannelRamps) {
  expect_right([](int64_t c, int64_t,
                  double r) { return std::ldexp(static_cast<float>(r), static_cast<int>(c % 81) - 40); },
               [](int64_t c, int64_t, double r) {
                 return std::ldexp(static_cast<float>(r), 40 - static_cast<int>(c % 81));
               });
}

TEST_F(Sm80, SilenceBesideAClick) {
  expect_right(
      [](int64_t, int64_t at, double r) {
        return static_cast<float>(at == 17 ? 3e4 : at < 100 ? r * 1e-9 : 0);
      },
      plain);
}

TEST_F(Sm80, SubnormalInput) {
  expect_right([](int64_t, int64_t at, double r) { return static_cast<float>(at % 50 < 40 ? r * 1e-39 : r); },
               plain, false);
}

TEST_F(Sm80, SubnormalWeights) {
  expect_right(
      plain, [](int64_t, int64_t at, double r) { return static_cast<float>(at < 90 ? r * 1e-39 : r); },
      false);
}

TEST_F(Sm80, NextToTheLargest) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  expect_right([](int64_t c, int64_t at,
                  double r) { return c == 3 && at % 5 == 0 ? kLargest : static_cast<float>(r); },
               [](int64_t c, int64_t, double r) { return c == 3 ? 1e-3f : static_cast<float>(r); });
}

TEST_F(Sm80, InfinitiesAndNanOfTheInput) {
  expect_right(
      [](int64_t c, int64_t at, double r) {
        if (c == 5 && at == 20) return kInf;
        if (c == 6 && at == 33) return -kInf;
        if (c == 7 && at == 38) return std::bit_cast<float>(0x7fffffffu);  // CUDA's own NaN
        if (c == 8 && at == 2) return std::bit_cast<float>(0x7f800001u);   // one whose upper bits are Inf's
        return static_cast<float>(r);
      },
      [](int64_t, int64_t at, double r) { return at % 11 == 0 ? 1.0f : static_cast<float>(r); });
}

// In ieee. Elsewhere an infinite weight meets the zeros that stand around x, so that the ends become NaN.
TEST_F(Sm80, InfinitiesOfTheWeights) {
  expect_right(
      [](int64_t c, int64_t at, double r) { return c == 5 && at == 20 ? kInf : static_cast<float>(r); },
      [](int64_t c, int64_t at, double r) { return c == 5 && at == 7 ? -kInf : static_cast<float>(r); },
      false);
}

// Every tile, pass and walk gives the same bits for the same split; integers are exact in all of them.
TEST_F(Sm80, ConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text : {"n2 ci70 co70 l301 k5 s1 p2 bias f32 tf32", "n3 ci40 co48 l61 k16 s8 p4 bias f32",
                           "n2 ci130 co40 l257 k7 s3 p1 d2 bias bf16", "n1 ci64 co64 l900 k3 s1 p0 d5 f16",
                           "n2 ci20 co36 l140 k4 s2 p1 g2 bias f64"}) {
    Operands o(text);
    const core::Problem& p = o.problem;
    std::vector<std::byte> first[9];
    for (int tile = 0; tile < 3; ++tile) {
      if (!cuda::sm80_has(cuda::sm80_mode(p), tile)) continue;
      for (int variant = 0; variant < 48; ++variant) {
        cuda::Sm80Config c;
        c.tile = tile;
        c.splits = 1 + variant % 2;
        c.resident = variant / 2 % 2 == 1;
        c.folded = variant / 4 % 2 == 1;
        c.walkers = variant / 8 % 3;
        c.pass_columns = cuda::sm80_tiles()[static_cast<std::size_t>(tile)].columns / (variant < 24 ? 1 : 2);
        c.tap_group = cuda::sm80_tap_group(p, tile);
        const bool whole = c.pass_columns >= cuda::sm80_tiles()[static_cast<std::size_t>(tile)].warp_columns;
        const cuda::Sm80Plan plan = cuda::sm80_plan_of(p, device, c);
        if (!whole || plan.blocks == 0 || c.splits > plan.params.slabs ||
            c.walkers > plan.params.column_tiles)
          continue;
        const auto kernel = cuda::sm80_kernel(p, device, c);
        Buffer packed(kernel->packed_bytes()), workspace(kernel->workspace_bytes()), y(o.output_bytes());
        plan::RunContext context;
        context.workspace = static_cast<std::byte*>(workspace.get());
        y.fill(0xff);
        ASSERT_TRUE(kernel->pack(o.weight_device.get(), packed.get(), context).ok());
        const plan::Operands operands{o.x_device.get(), packed.get(),
                                      p.has_bias ? o.bias_device.get() : nullptr, nullptr, y.get()};
        ASSERT_TRUE(kernel->run(operands, context).ok());
        ASSERT_CUDA(cudaDeviceSynchronize());
        const std::vector<std::byte> got = y.take();
        std::vector<std::byte>& expected = first[c.splits];
        if (expected.empty()) {
          EXPECT_LE(o.worst(got), 300.0) << text;  // tf32 rounds; a wrong element is far beyond
          expected = got;
        }
        EXPECT_TRUE(got == expected) << text << ": " << cuda::text(c);
      }
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
