// The tensor-core kernels on data that a split of float32, a rounding to tf32 or float16's range could get
// wrong, element by element against float64.
#include <bit>
#include <functional>
#include <limits>

#include "cuda/entries.hpp"
#include "gpu/device.hpp"
#include "gpu/sm90_configs.hpp"
#include "judge/truth.hpp"

namespace tconv::gpu_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// By the kernel's name.
class TensorCores : public Gpu, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (std::string(GetParam()).find("sm90") != std::string::npos && cuda::device_info(0).value().sm != 90) {
      GTEST_SKIP() << "not a GPU of compute capability 9.0";
    }
  }
};

// Not a kernel's name: cuda.sm90.dense in every configuration in which x comes by tensor copies.
constexpr const char* kDirect = "cuda.sm90.dense direct";

INSTANTIATE_TEST_SUITE_P(Kernels, TensorCores,
                         ::testing::Values("cuda.sm80.dense", "cuda.sm90.dense", kDirect),
                         [](const auto& test) {
                           if (test.param == kDirect) return "sm90_direct";
                           return std::string(test.param).find("sm90") != std::string::npos ? "sm90" : "sm80";
                         });

// A value of the element at (channel, position) for x, (channel, cout, tap) flattened for the weight.
using Value = std::function<float(int64_t channel, int64_t at, double random)>;

void set(DeviceOperands& o, const Value& x, const Value& w) {
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
void expect_right(const DeviceOperands& o, const std::vector<std::byte>& y) {
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

// With one and two row blocks a tile, and weights that are streamed and resident.
void expect_direct_right(const Value& x, const Value& w, const std::string& mode) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  int ran = 0;
  for (const char* shape :
       {"n2 ci48 co40 l304 k5 s2 p1 ", "n1 ci160 co32 l40 k8 s4 p2 ", "n2 ci32 co70 l516 k3 s1 p0 ",
        "n2 ci48 co40 l301 k5 s1 p2 d3 ", "n1 ci32 co33 l502 k7 s1 p0 "}) {
    DeviceOperands o(shape + mode);
    set(o, x, w);
    for (const cuda::Sm90Config& c : tma_configs(o.problem)) {
      if (cuda::sm90_plan_of(o.problem, device, c).blocks == 0) continue;
      const std::vector<std::byte> y = run_once(*cuda::sm90_kernel(o.problem, device, c), o);
      expect_right(o, y);
      ++ran;
    }
  }
  EXPECT_GE(ran, 5);
}

// Both precisions, a split and an unsplit plan, one and two classes of phases.
void expect_right(const char* kernel, const Value& x, const Value& w, bool tf32 = true) {
  if (kernel == kDirect) {
    expect_direct_right(x, w, "f32");
    if (tf32) expect_direct_right(x, w, "f32 tf32");
    return;
  }
  for (const char* shape :
       {"n2 ci48 co40 l301 k5 s2 p1 ", "n1 ci160 co32 l40 k8 s4 p2 ", "n2 ci32 co70 l517 k3 s1 p0 d2 "}) {
    for (const char* mode : {"f32", "f32 tf32"}) {
      if (!tf32 && std::string(mode) != "f32") continue;
      DeviceOperands o(std::string(shape) + mode);
      set(o, x, w);
      const PlanPointer plan = plan_of(core::text(o.problem), kernel);
      ASSERT_NE(plan, nullptr);
      expect_right(o, run_once(plan.get(), o));
    }
  }
}

float plain(int64_t, int64_t, double random) {
  return static_cast<float>(random);
}

TEST_P(TensorCores, CancellingSums) {
  expect_right(
      GetParam(), [](int64_t c, int64_t, double) { return c % 2 == 0 ? 1.0f : -1.0f; },
      [](int64_t c, int64_t at, double r) {
        return static_cast<float>(1000.0 + static_cast<double>(at % 7) +
                                  static_cast<double>(c % 2) * r * 1e-3);
      });
}

TEST_P(TensorCores, LargeBesideSmallThatAnOutputSeesAlone) {
  expect_right(
      GetParam(),
      [](int64_t c, int64_t, double r) { return static_cast<float>(r * (c % 2 == 0 ? 1e30 : 1e-30)); },
      [](int64_t c, int64_t at, double r) { return c % 2 == 0 && at < 60 ? 0.0f : static_cast<float>(r); });
}

TEST_P(TensorCores, ChannelRamps) {
  expect_right(
      GetParam(),
      [](int64_t c, int64_t, double r) {
        return std::ldexp(static_cast<float>(r), static_cast<int>(c % 81) - 40);
      },
      [](int64_t c, int64_t, double r) {
        return std::ldexp(static_cast<float>(r), 40 - static_cast<int>(c % 81));
      });
}

TEST_P(TensorCores, SilenceBesideAClick) {
  expect_right(
      GetParam(),
      [](int64_t, int64_t at, double r) {
        return static_cast<float>(at == 17 ? 3e4 : at < 100 ? r * 1e-9 : 0);
      },
      plain);
}

// Below float16's normal range in a tile whose other numbers are not: first where sums are large beside them.
TEST_P(TensorCores, FewTinyAmongOthers) {
  expect_right(
      GetParam(),
      [](int64_t c, int64_t at, double r) {
        return static_cast<float>((3 * c + at) % 61 == 0 ? r * 1e-9 : r);
      },
      plain);
}

TEST_P(TensorCores, FewTinyThatAnOutputSeesAlone) {
  expect_right(
      GetParam(),
      [](int64_t c, int64_t at, double r) {
        if (c == 2 && at == 17) return 3e4f;
        return c == 3 && at % 16 == 8 ? static_cast<float>(r * 1e-5) : 0.0f;
      },
      plain);
}

// What rounds to the same number in float16 adds up to zero there.
TEST_P(TensorCores, TinyThatNearlyCancel) {
  expect_right(
      GetParam(),
      [](int64_t c, int64_t at, double) {
        if (c == 2 && at == 17) return 0x1p15f;
        if (at != 30) return 0.0f;
        return c == 3 ? 0x1.02p-16f : c == 4 ? -0x1.04p-16f : 0.0f;
      },
      [](int64_t, int64_t, double) { return 1.0f; });
}

TEST_P(TensorCores, SubnormalInput) {
  expect_right(
      GetParam(),
      [](int64_t, int64_t at, double r) { return static_cast<float>(at % 50 < 40 ? r * 1e-39 : r); }, plain,
      false);
}

TEST_P(TensorCores, SubnormalWeights) {
  expect_right(
      GetParam(), plain,
      [](int64_t, int64_t at, double r) { return static_cast<float>(at < 90 ? r * 1e-39 : r); }, false);
}

TEST_P(TensorCores, NextToTheLargest) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  expect_right(
      GetParam(),
      [](int64_t c, int64_t at, double r) {
        return c == 3 && at % 5 == 0 ? kLargest : static_cast<float>(r);
      },
      [](int64_t c, int64_t, double r) { return c == 3 ? 1e-3f : static_cast<float>(r); });
}

TEST_P(TensorCores, InfinitiesAndNanOfTheInput) {
  expect_right(
      GetParam(),
      [](int64_t c, int64_t at, double r) {
        if (c == 5 && at == 20) return kInf;
        if (c == 6 && at == 33) return -kInf;
        if (c == 7 && at == 38) return std::bit_cast<float>(0x7fffffffu);  // CUDA's own NaN
        if (c == 8 && at == 2) return std::bit_cast<float>(0x7f800001u);   // one whose upper bits are Inf's
        return static_cast<float>(r);
      },
      [](int64_t, int64_t at, double r) { return at % 11 == 0 ? 1.0f : static_cast<float>(r); });
}

// Also at the ends, where the weight meets zeros that stand around x.
TEST_P(TensorCores, InfinitiesOfTheWeights) {
  expect_right(
      GetParam(),
      [](int64_t c, int64_t at, double r) { return c == 5 && at == 20 ? kInf : static_cast<float>(r); },
      [](int64_t c, int64_t at, double r) { return c == 5 && at == 7 ? -kInf : static_cast<float>(r); });
}

}  // namespace
}  // namespace tconv::gpu_test
