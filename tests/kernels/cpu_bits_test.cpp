// What every CPU kernel promises about bits, whatever the data: one NaN, the sign of zero, and no dependence
// on the addresses of operands. Each test walks every kernel that takes the problem, every dtype and SIMD
// target.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/nan.hpp"
#include "cpu_family.hpp"
#include "reference/reference.hpp"

namespace tconv::tests {
namespace {

using core::DType;
using core::Problem;

// Elements from a place on that lies so many elements behind a multiple of 256 bytes.
class Tensor {
 public:
  Tensor(DType dtype, int64_t count, int64_t shift)
      : dtype_(dtype), count_(count), memory_(static_cast<std::size_t>(count + 64) * 8 + 256) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    at_ = memory_.data() + (256 - address % 256) + static_cast<std::size_t>(shift) * size_of(dtype);
  }
  void* data() const { return at_; }
  int64_t count() const { return count_; }
  void store(int64_t i, double v) { reference::store(dtype_, at_, i, v); }
  double load(int64_t i) const { return reference::load(dtype_, at_, i); }
  void set_bits(int64_t i, uint64_t bits) {
    std::memcpy(at_ + static_cast<std::size_t>(i) * size_of(dtype_), &bits, size_of(dtype_));
  }
  uint64_t bits(int64_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, at_ + static_cast<std::size_t>(i) * size_of(dtype_), size_of(dtype_));
    return bits;
  }

 private:
  DType dtype_;
  int64_t count_;
  std::vector<std::byte> memory_;
  std::byte* at_;
};

struct Tensors {
  Problem problem;
  Tensor x, w, bias, y;

  // shifts: of x, w, bias and y.
  explicit Tensors(const Problem& p, std::array<int64_t, 4> shifts = {})
      : problem(p),
        x(p.dtype, p.x_span(), shifts[0]),
        w(p.dtype, p.weight_elements(), shifts[1]),
        bias(p.dtype, p.cout, shifts[2]),
        y(p.dtype, p.y_elements(), shifts[3]) {}

  void fill_uniform() {
    judge::Rng rng(9);
    for (Tensor* tensor : {&x, &w, &bias}) {
      for (int64_t i = 0; i < tensor->count(); ++i) tensor->store(i, rng.unit() - 0.5);
    }
  }
  void run(const std::string& kernel) {
    plan::PlanOptions options;
    options.force_kernel = kernel;
    options.threads = 2;
    auto made = plan::make_plan(problem, cpu::host_device(), options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const std::size_t bytes = made.value().workspace_bytes(false);
    std::vector<std::byte> memory(bytes + 256);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    const plan::RunContext context{memory.data() + (256 - address % 256), cpu::pool_executor(2), nullptr};
    for (int64_t i = 0; i < y.count(); ++i) y.store(i, 77);
    const plan::Operands operands{x.data(), w.data(), problem.has_bias ? bias.data() : nullptr, nullptr,
                                  y.data()};
    ASSERT_TRUE(plan::run(made.value(), operands, false, context, bytes).ok());
  }
};

// Short and long strides, gaps of dilation, residues without taps, outputs that padding and output_padding
// leave without products, many and few channels, groups; what each kernel takes at least one of.
const char* const kLines[] = {
    "n2 ci3 co5 l9 k5 s1 p2 bias",           "n1 ci4 co3 l40 k4 s2 p1 bias",
    "n2 ci6 co6 g6 l33 k3 s2 p0 op1 bias",   "n1 ci3 co6 g3 l70 k7 s3 p1 op2 bias",
    "n1 ci8 co4 l35 k100 s1 p0 bias",        "n1 ci6 co2 l9 k3 s7 p2 op6 bias",
    "n1 ci4 co4 g4 l5 k3 s11 p0 op10 bias",  "n1 ci5 co7 l3 k3 s2 p4 d5 op4 bias",
    "n1 ci9 co2 l3 k2 s40 p7 op39 bias",     "n2 ci40 co33 l1 k3 s2 p0 d4 op3 bias",
    "n1 ci2 co2 l130 k66 s65 p64 op9 bias",  "n1 ci2 co3 l80 k3 s1 p0 d40 bias",
    "n1 ci4 co4 g4 l2 k3 s4 p1 d9 op8 bias", "n1 ci3 co17 l50 k2 s5 p0 op4 xs150,1,3 bias"};

// f(problem, kernel) for all of them.
template <class F>
void each_kernel(F&& f) {
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    for (const char* line : kLines) {
      for (const char* dtype : {" f32", " f64", " f16", " bf16"}) {
        const Problem p = problem_of(line + std::string(dtype));
        for (const plan::KernelEntry* entry : plan::supporting(p, cpu::host_device(), {})) {
          SCOPED_TRACE(simd + ", " + entry->name + ": " + text(p));
          f(p, std::string(entry->name));
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

// NaN of every sign and payload; signalling ones too.
uint64_t strange_nan(DType dtype, uint64_t random) {
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  const uint64_t mantissa = (uint64_t{1} << (dtype == DType::f64    ? 52
                                             : dtype == DType::f32  ? 23
                                             : dtype == DType::bf16 ? 7
                                                                    : 10)) -
                            1;
  const uint64_t sign = (random & 1) << (bits - 1);
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t exponent = (all >> 1) & ~mantissa;
  return sign | exponent | std::max<uint64_t>(1, (random >> 1) & mantissa) | (random % 5 == 0 ? mantissa : 0);
}

int64_t expect_one_nan(const Tensors& t) {
  int64_t found = 0;
  for (int64_t i = 0; i < t.y.count(); ++i) {
    if (!std::isnan(t.y.load(i))) continue;
    ++found;
    EXPECT_EQ(t.y.bits(i), core::canonical_nan(t.problem.dtype)) << "element " << i;
  }
  return found;
}

TEST(CpuBits, OneNanLeavesEveryKernel) {
  each_kernel([](const Problem& p, const std::string& kernel) {
    judge::Rng rng(4);
    Tensors t(p);
    t.fill_uniform();
    // Only the bias, with products or without any.
    for (int64_t c = 0; c < p.cout; ++c) t.bias.set_bits(c, strange_nan(p.dtype, rng.next()));
    t.run(kernel);
    EXPECT_EQ(expect_one_nan(t), t.y.count());
    // Two NaN in one sum, with another order of them in every kernel; and infinities of both signs.
    t.fill_uniform();
    for (int64_t i = 0; i < t.x.count(); i += 3) t.x.set_bits(i, strange_nan(p.dtype, rng.next()));
    for (int64_t i = 0; i < t.w.count(); i += 5) t.w.set_bits(i, strange_nan(p.dtype, rng.next()));
    t.run(kernel);
    EXPECT_GT(expect_one_nan(t), 0);
    t.fill_uniform();
    for (int64_t i = 0; i < t.w.count(); ++i) {
      t.w.store(i, i % 2 == 0 ? -std::numeric_limits<double>::infinity() : 0.5);
    }
    for (int64_t i = 0; i < t.x.count(); ++i) t.x.store(i, i % 2 == 0 ? 1 : -1);
    t.run(kernel);
    expect_one_nan(t);
  });
}

bool has_product(const Problem& p, int64_t o) {
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t reach = o + p.padding - k * p.dilation;
    if (reach >= 0 && reach % p.stride == 0 && reach / p.stride < p.l) return true;
  }
  return false;
}

// Without products an output is its bias, whatever the sign of a zero; with products a sum of zeros is +0.0.
TEST(CpuBits, SignOfZero) {
  int64_t alone = 0, sums = 0;
  each_kernel([&](const Problem& p, const std::string& kernel) {
    judge::Rng rng(6);
    for (const bool cancel : {false, true}) {
      Tensors t(p);
      // All products are zeros of either sign, or they cancel.
      for (int64_t i = 0; i < t.x.count(); ++i) t.x.store(i, cancel ? 1.0 : rng.chance(50) ? 0.0 : -0.0);
      for (int64_t i = 0; i < t.w.count(); ++i) t.w.store(i, cancel ? 0.0 : rng.chance(50) ? 0.5 : -0.5);
      const int64_t next = p.cout_per_group() * p.k;  // from one channel in to the next
      for (int64_t i = 0; cancel && p.cin_per_group() > 1 && i < next; ++i) {
        t.w.store(i, 0.25);
        t.w.store(i + next, -0.25);
      }
      for (int64_t c = 0; c < p.cout; ++c) t.bias.store(c, c % 2 == 0 ? -0.0 : 0.0);
      t.run(kernel);
      for (int64_t i = 0; i < t.y.count(); ++i) {
        const bool product = has_product(p, i % p.lout());
        const bool negative = !product && i / p.lout() % p.cout % 2 == 0;
        EXPECT_EQ(t.y.load(i), 0) << "element " << i;
        EXPECT_EQ(std::signbit(t.y.load(i)), negative) << "element " << i;
        ++(product ? sums : alone);
      }
    }
  });
  EXPECT_GT(alone, 1000);
  EXPECT_GT(sums, 1000);
}

// Every element offset within a cache line, of all operands at once and apart.
TEST(CpuBits, NoDependenceOnAddresses) {
  each_kernel([](const Problem& p, const std::string& kernel) {
    Tensors first(p);
    first.fill_uniform();
    first.run(kernel);
    const auto offsets = static_cast<int64_t>(64 / size_of(p.dtype));
    for (int64_t shift = 1; shift < offsets; ++shift) {
      const std::array<int64_t, 4> together = {shift, shift * 3 % offsets, shift * 5 % offsets,
                                               shift * 7 % offsets};
      std::array<int64_t, 4> apart = {};
      apart[static_cast<std::size_t>(shift % 4)] = shift;
      for (const auto& shifts : {together, apart}) {
        Tensors moved(p, shifts);
        moved.fill_uniform();
        moved.run(kernel);
        const auto bytes = static_cast<std::size_t>(first.y.count()) * size_of(p.dtype);
        EXPECT_EQ(std::memcmp(first.y.data(), moved.y.data(), bytes), 0)
            << "x, w, bias, y at elements " << shifts[0] << ", " << shifts[1] << ", " << shifts[2] << ", "
            << shifts[3];
      }
    }
  });
}

// A sample alone, and the first and the last of many: kernels lay batches out in other ways than samples.
TEST(CpuBits, NoDependenceOnTheBatch) {
  int64_t compared = 0;
  each_kernel([&](const Problem& p, const std::string& kernel) {
    if (!p.x_contiguous) return;
    Problem one = p, many = p;
    one.n = 1, many.n = 24;
    if (!supported(one, kernel.c_str()) || !supported(many, kernel.c_str())) return;
    Tensors alone(one), batch(many);
    batch.fill_uniform();
    for (int64_t i = 0; i < alone.w.count(); ++i) alone.w.set_bits(i, batch.w.bits(i));
    for (int64_t i = 0; i < alone.bias.count(); ++i) alone.bias.set_bits(i, batch.bias.bits(i));
    batch.run(kernel);
    for (const int64_t sample : {int64_t{0}, many.n - 1}) {
      const int64_t x = alone.x.count(), y = alone.y.count();
      for (int64_t i = 0; i < x; ++i) alone.x.set_bits(i, batch.x.bits(sample * x + i));
      alone.run(kernel);
      for (int64_t i = 0; i < y; ++i) {
        ASSERT_EQ(alone.y.bits(i), batch.y.bits(sample * y + i)) << "sample " << sample << ", element " << i;
      }
      ++compared;
    }
  });
  EXPECT_GT(compared, 200);
}

// Sums of many NaN, which the vectors of one target and the tails of another met in other orders.
TEST(CpuBits, SameNanForAnySplit) {
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    for (uint64_t seed = 0; seed < 40; ++seed) {
      judge_problem(problem_of("n1 ci8 co4 l258 k100 s1 p0 bias f16"), "cpu.longk", seed,
                    {judge::Fill::special});
    }
  }
}

TEST(SimdTargets, AreForcedByNameAndRefusedInWords) {
  ASSERT_FALSE(cpu::simd::target_names().empty());
  const std::string before = cpu::simd::target_name();
  for (const std::string& name : cpu::simd::target_names()) {
    ASSERT_TRUE(cpu::simd::choose_target(name).ok());
    EXPECT_EQ(cpu::simd::target_name(), name);
  }
  const core::Status refused = cpu::simd::choose_target("AVX1024");
  EXPECT_EQ(refused.code(), core::Code::invalid_argument);
  EXPECT_NE(refused.message().find("AVX1024"), std::string::npos);
  EXPECT_NE(refused.message().find(cpu::simd::target_names().front()), std::string::npos);
  ASSERT_TRUE(cpu::simd::choose_target("").ok());
  EXPECT_EQ(cpu::simd::target_name(), before);
}

}  // namespace
}  // namespace tconv::tests
