// Infinities, NaN and signed zeros by every kernel: what lies outside x, or what a phase does not have, is no
// product; every NaN is the canonical one; a sum of no products is the bias, bit for bit.
#include <bit>
#include <cstring>

#include "core/nan.hpp"
#include "core/polyphase.hpp"
#include "gpu/device.hpp"
#include "judge/judge.hpp"

namespace tconv::gpu_test {
namespace {

class Special : public Gpu {};

// Special values in any operand, near the ends and away, against float64: infinities and NaN exactly where it
// has them.
void expect_right(const std::vector<const char*>& texts, int seeds) {
  const auto target = judge::cuda_target(0);
  ASSERT_TRUE(target.ok()) << target.status().message();
  for (const char* text : texts) {
    const core::Problem p = core::parse(text).value();
    int wrong = 0;
    for (int seed = 1; seed <= seeds && wrong < 3; ++seed) {
      judge::JudgeOptions options;
      options.seed = static_cast<uint64_t>(seed);
      options.fills = {judge::Fill::special};
      for (const judge::Verdict& verdict : judge::judge(p, "all", *target.value(), options)) {
        if (verdict.right) continue;
        ++wrong;
        ADD_FAILURE() << text << " seed " << seed << " " << verdict.kernel << ": " << verdict.failure;
      }
    }
  }
}

TEST_F(Special, ProblemsWithInfiniteWeightsAtTheEnds) {
  expect_right({"n5 ci85 co85 g85 l1 k23 s1 p6 f32 tf32", "n1 ci96 co144 g8 l82 k20 s6 p2 op5 d3 f32 tf32",
                "n3 ci192 co32 g8 l884 k7 s2 p2 f16", "n2 ci80 co129 l26 k37 s3 p0 f32",
                "n4 ci1 co24 l1 k4 s1 p0 f64", "n1 ci64 co48 l1 k5 s8 p0 op7 f64",
                "n2 ci1 co1 l3461 k25 s4 p0 op1 d4 f64", "n1 ci128 co16 g2 l3 k5 s1 p0 f16"},
               20);
}

TEST_F(Special, Depthwise) {
  expect_right({"n2 ci6 co6 g6 l700 k7 s1 p3 bias f32", "n2 ci6 co6 g6 l901 k12 s2 p5 bias f16",
                "n1 ci8 co8 g4 l333 k5 s4 p0 op3 bf16", "n1 ci3 co3 g3 l5 k40 s8 p0 bias f32",
                "n1 ci4 co4 g4 l6000 k9 s2 p4 bias bf16", "n2 ci3 co3 g3 l300 k40 s8 p0 bias f32",
                "n3 ci4 co4 g4 l17 k5 s3 p2 bias f32", "n5 ci6 co9 g3 l6 k23 s1 p6 bias bf16",
                "n4 ci5 co5 g5 l1 k3 s1 p0 f16", "n3 ci8 co4 g4 l9 k3 s7 p4 op5 bias f16"},
               12);
}

// Through a ring, and from L1; longk with a split reduction.
TEST_F(Special, NarrowAndLongk) {
  expect_right({"n2 ci20 co3 l500 k7 s2 p2 bias f32", "n1 ci64 co1 l300 k16 s8 p3 bias f32",
                "n2 ci22 co16 l70 k7 s4 p1 f16", "n1 ci512 co1 l40 k21 s10 p5 bias bf16",
                "n1 ci9 co8 l65 k4 s2 p1 f64", "n1 ci130 co1 l24 k64 s16 p0 bias f32",
                "n2 ci4 co4 l33 k3 s4 p0 op3 bias f32", "n1 ci5 co2 l7 k33 s1 p0 bias f64"},
               12);
}

TEST_F(Special, GatherAndDense) {
  expect_right({"n2 ci3 co5 l60 k4 s3 p2 d5 bias f32", "n1 ci6 co6 g6 l40 k9 s1 p4 d6 f16",
                "n2 ci30 co40 l50 k9 s4 p3 bias f32", "n3 ci33 co20 l17 k5 s3 p0 op2 d2 bias f64",
                "n1 ci130 co65 l9 k12 s5 p1 f16", "n2 ci48 co70 l200 k3 s1 p1 bias bf16",
                "n1 ci256 co24 l12 k7 s2 p0 f32"},
               12);
}

// Of every mode, with all phases alike and not, folded samples and split sums.
TEST_F(Special, TensorCores) {
  std::vector<std::string> texts;
  for (const char* mode : {"f32", "f32 tf32", "f16", "bf16", "f64"}) {
    for (const char* shape : {"n2 ci64 co48 l301 k5 s2 p1 bias ", "n1 ci40 co64 l520 k3 s1 p1 ",
                              "n4 ci130 co33 l19 k16 s8 p4 bias ", "n2 ci32 co72 l700 k7 s3 p0 d2 ",
                              "n2 ci48 co40 l264 k5 s1 p2 d3 bias ", "n1 ci96 co36 l90 k4 s2 p0 g2 ",
                              "n2 ci48 co2 l40 k250 s100 p7 bias "}) {
      texts.push_back(std::string(shape) + mode);
    }
  }
  std::vector<const char*> list;
  for (const std::string& text : texts) list.push_back(text.c_str());
  expect_right(list, 8);
}

// Bits of elements, widened.
std::vector<uint64_t> bits_of(const core::Problem& p, const std::vector<std::byte>& data) {
  const std::size_t size = core::size_of(p.dtype);
  std::vector<uint64_t> bits(data.size() / size);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bits[i], data.data() + i * size, size);
  return bits;
}

void set_bits(const core::Problem& p, std::vector<std::byte>& data, int64_t at, uint64_t bits) {
  const std::size_t size = core::size_of(p.dtype);
  std::memcpy(data.data() + static_cast<std::size_t>(at) * size, &bits, size);
}

// Whether output o has a product, by the definition.
bool has_product(const core::Problem& p, int64_t o) {
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t i = o + p.padding - k * p.dilation;
    if (i >= 0 && i % p.stride == 0 && i / p.stride < p.l) return true;
  }
  return false;
}

const std::vector<const char*>& gapped() {
  // Residues without taps, outputs beyond the last product, taps further apart than x is long.
  static const std::vector<const char*> list = {
      "n2 ci32 co40 l60 k2 s4 p0 op3 bias ",     "n2 ci24 co24 g24 l300 k2 s4 p0 op3 bias ",
      "n1 ci24 co24 g24 l40 k1 s2 p0 op1 bias ", "n1 ci24 co24 g24 l900 k1 s2 p0 op1 bias ",
      "n2 ci12 co24 g12 l5 k3 s5 p1 op4 bias ",  "n2 ci48 co33 l33 k3 s2 p0 d2 op1 bias ",
      "n2 ci16 co18 l5 k4 s3 p1 d8 bias ",       "n1 ci20 co2 l90 k3 s5 p1 op4 bias ",
      "n1 ci600 co1 l20 k3 s5 p0 op4 bias ",     "n3 ci64 co64 l9 k3 s1 p0 d12 bias ",
      "n1 ci3 co4 l10 k3 s2 p0 d3 bias ",        "n2 ci32 co64 l512 k3 s2 p1 d2 op1 bias "};
  return list;
}

constexpr const char* kModes[] = {"f32", "f32 tf32", "f16", "bf16", "f64"};

// All products and biases are zeros of both signs: the result is +0.0 if there are products, else the bias.
TEST_F(Special, SignOfZero) {
  for (const char* shape : gapped()) {
    for (const char* mode : kModes) {
      DeviceOperands o(std::string(shape) + mode);
      const core::Problem& p = o.problem;
      for (std::vector<std::byte>* data : {&o.x, &o.weight, &o.bias}) {
        const auto count = static_cast<int64_t>(data->size() / core::size_of(p.dtype));
        for (int64_t i = 0; i < count; ++i) {
          const bool negative = reference::load(p.dtype, data->data(), i) < 0;
          const double value = data == &o.weight ? 1.0 : 0.0;
          reference::store(p.dtype, data->data(), i, negative ? -value : value);
        }
      }
      reference::store(p.dtype, o.bias.data(), 0, -0.0);
      o.x_device.put(o.x), o.weight_device.put(o.weight), o.bias_device.put(o.bias);
      const std::vector<uint64_t> bias = bits_of(p, o.bias);
      for (const std::string& kernel : kernels_of(core::text(p))) {
        const PlanPointer plan = plan_of(core::text(p), kernel.c_str());
        const std::vector<uint64_t> got = bits_of(p, run_once(plan.get(), o));
        int wrong = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const int64_t at = static_cast<int64_t>(i) % p.lout(),
                        channel = static_cast<int64_t>(i) / p.lout() % p.cout;
          const uint64_t should = has_product(p, at) ? 0 : bias[static_cast<std::size_t>(channel)];
          if (got[i] == should || ++wrong > 1) continue;
          ADD_FAILURE() << core::text(p) << " " << kernel << ": output " << at << " of channel " << channel
                        << " has bits " << std::hex << got[i] << ", not " << should;
        }
      }
    }
  }
}

// NaN of other signs and payloads in every operand: one NaN comes out, even if a bias is merely copied.
TEST_F(Special, OneNan) {
  for (const char* shape : gapped()) {
    for (const char* mode : kModes) {
      DeviceOperands o(std::string(shape) + mode);
      const core::Problem& p = o.problem;
      const uint64_t nan = core::canonical_nan(p.dtype),
                     sign = uint64_t{1} << (8 * core::size_of(p.dtype) - 1);
      // Positive and negative, quiet and signalling.
      const uint64_t quiet = nan & ~(nan - 1),
                     kinds[] = {nan | sign, nan | 1, sign | nan | 5, (nan ^ quiet) | 1};
      const auto last = static_cast<int64_t>(o.x.size() / core::size_of(p.dtype)) - 1;
      set_bits(p, o.x, last / 2, kinds[0]);
      set_bits(p, o.weight, 0, kinds[1]);
      for (int64_t co = 0; co < p.cout; co += 3) set_bits(p, o.bias, co, kinds[co / 3 % 4]);
      o.x_device.put(o.x), o.weight_device.put(o.weight), o.bias_device.put(o.bias);
      for (const std::string& kernel : kernels_of(core::text(p))) {
        const PlanPointer plan = plan_of(core::text(p), kernel.c_str());
        const std::vector<std::byte> y = run_once(plan.get(), o);
        const std::vector<uint64_t> got = bits_of(p, y);
        int wrong = 0, nans = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (!std::isnan(reference::load(p.dtype, y.data(), static_cast<int64_t>(i)))) continue;
          ++nans;
          if (got[i] == nan || ++wrong > 1) continue;
          ADD_FAILURE() << core::text(p) << " " << kernel << ": element " << i << " has bits " << std::hex
                        << got[i];
        }
        // Every output of a channel whose bias is NaN.
        EXPECT_GE(nans, p.n * core::ceil_div(p.cout, int64_t{3}) * p.lout())
            << core::text(p) << " " << kernel;
      }
    }
  }
}

// The same of gradients, which plain kernels compute.
TEST_F(Special, GradientsHaveOneNan) {
  const auto target = judge::cuda_target(0);
  ASSERT_TRUE(target.ok()) << target.status().message();
  for (const char* operation : {"gx", "gw", "gb"}) {
    for (const char* mode : {"f32", "f16", "bf16", "f64"}) {
      const std::string text = std::string(operation) + " n2 ci6 co9 l50 k5 s2 p1 g3 " + mode;
      const auto p = core::parse(text);
      ASSERT_TRUE(p.ok()) << text << ": " << p.status().message();
      for (uint64_t seed = 1; seed <= 10; ++seed) {
        judge::JudgeOptions options;
        options.seed = seed;
        options.fills = {judge::Fill::special};
        for (const judge::Verdict& verdict : judge::judge(p.value(), "all", *target.value(), options)) {
          EXPECT_TRUE(verdict.right) << text << " seed " << seed << " " << verdict.kernel << ": "
                                     << verdict.failure;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
