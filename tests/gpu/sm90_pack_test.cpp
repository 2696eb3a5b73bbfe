// What cuda.sm90.dense makes of weights, byte for byte, against loops over the layouts of
// cuda/sm90/dense.hpp.
#include <cstring>

#include "core/polyphase.hpp"
#include "cuda/entries.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/host/transposed_form.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm90/cost.hpp"
#include "cuda/sm90/dense_plan.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

using core::DType;
using cuda::Arithmetic;

// To nearest at 10 mantissa bits, ties away from zero, but finite numbers stay finite.
float tf32_of(float v) {
  if (!std::isfinite(v) || v == 0) return v;
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(v), -126) - 10);
  const double rounded = std::round(v / quantum) * quantum;
  return static_cast<float>(std::fabs(rounded) < 0x1p128 ? rounded : std::trunc(v / quantum) * quantum);
}

bool too_small(float v) {
  return v != 0 && std::fabs(v) < 0x1p-100f;
}

// One part of a weight in the mode.
float part_of(Arithmetic mode, float v, int part) {
  if (mode == Arithmetic::tf32) return tf32_of(v);
  if (mode != Arithmetic::ieee) return v;
  if (!std::isfinite(v)) return part == 0 ? 0 : v;
  if (too_small(v)) return part == 0 ? 0 : v;
  return part == 0 ? tf32_of(v) : tf32_of(v - tf32_of(v));
}

class Packed : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (cuda::device_info(0).value().sm != 90) GTEST_SKIP() << "not a GPU of compute capability 9.0";
  }

  // Packs as the plan would; 0xff wherever nothing was written.
  void pack(const std::string& text, const std::vector<std::pair<int64_t, double>>& planted, int lead) {
    const DeviceOperands o(text);
    const cuda::TransposedForm form = cuda::transposed_form(o.problem);
    problem_ = form.product;
    steps_ = form.weights;
    mode_ = cuda::arithmetic_of(problem_);
    weight_ = o.weight;
    for (const auto& [place, value] : planted) {
      reference::store(problem_.dtype, weight_.data(), place % o.problem.weight_elements(), value);
    }
    const core::DeviceInfo device = cuda::device_info(0).value();
    const cuda::Sm90Plan plan = cuda::sm90_plan(problem_, device, false);
    ASSERT_GT(plan.blocks, 0) << text;
    phases_ = plan.phases;
    row_blocks_ = plan.params.sizes.row_blocks;
    block_couts_ = plan.params.sizes.block_couts;
    const auto kernel = cuda::sm90_kernel(o.problem, device, plan.config);
    Buffer packed(kernel->packed_bytes());
    Buffer weight(weight_.size() + static_cast<std::size_t>(lead));  // an address that is not on 16 bytes
    std::byte* const raw = static_cast<std::byte*>(weight.get()) + lead;
    ASSERT_CUDA(cudaMemcpy(raw, weight_.data(), weight_.size(), cudaMemcpyHostToDevice));
    packed.fill(0xff);
    ASSERT_TRUE(kernel->pack(raw, packed.get(), plan::RunContext{}).ok()) << text;
    ASSERT_CUDA(cudaDeviceSynchronize());
    packed_ = packed.take();
  }

  // 0 where there is none.
  float weight(int64_t group, int64_t channel, int64_t cout, int64_t k) const {
    if (channel >= problem_.cin_per_group() || cout >= problem_.cout_per_group() || k >= problem_.k) return 0;
    // A strided product's channels are pairs, and its taps are in falling order (transposed_form.hpp).
    const int64_t outer = channel / steps_.phases,
                  at = steps_.first + channel % steps_.phases + steps_.step * k;
    if (at >= steps_.k) return 0;
    const int64_t place = group * steps_.group + outer * steps_.cin + cout * steps_.cout + at;
    return static_cast<float>(reference::load(problem_.dtype, weight_.data(), place));
  }

  // Held in float16: 1/scale of a cout, and whether all its weights lie where float16 is normal.
  float unscale_of(int64_t group, int64_t cout, bool& fits) const {
    float most = 0;
    for_each_weight(group, cout,
                    [&](float v) { most = std::isfinite(v) ? std::max(most, std::fabs(v)) : most; });
    const int exponent = most == 0 ? 0 : std::clamp(std::max(std::ilogb(most), -127), -60, 60);
    // As far up as float16 reaches: 65504 is 2^15 times 2 - 2^-10.
    const int up =
        std::isfinite(most) && most > 0 && most / std::ldexp(1.0f, std::ilogb(most)) > 2 - 0x1p-10f ? 14 : 15;
    const float unscale = std::ldexp(1.0f, exponent - up);
    for_each_weight(group, cout, [&](float v) {
      const float scaled = std::fabs(v) / unscale;
      fits = fits && (v == 0 || (scaled >= 0x1p-14f && scaled <= 65504));
    });
    return unscale;
  }
  template <class Visit>
  void for_each_weight(int64_t group, int64_t cout, Visit visit) const {
    for (int64_t channel = 0; channel < problem_.cin_per_group(); ++channel) {
      for (int64_t k = 0; k < problem_.k; ++k) visit(weight(group, channel, cout, k));
    }
  }

  float packed_at(int64_t byte, DType dtype) const {
    return static_cast<float>(reference::load(dtype, packed_.data() + byte, 0));
  }

  // A row block's marks: each byte 0 or 1, and any of them 1 where `expected`.
  void expect_marks(int64_t at, bool expected, const std::string& what) const {
    bool any = false;
    for (int i = 0; i < cuda::kSm90RowMarks; ++i) {
      const int byte = std::to_integer<int>(packed_[static_cast<std::size_t>(at + i)]);
      EXPECT_LE(byte, 1) << what;
      any = any || byte != 0;
    }
    EXPECT_EQ(any, expected) << what;
  }

  void expect_layout(int64_t base, bool held, const std::string& text) const {
    const cuda::Sm90Layout layout = cuda::sm90_layout(mode_, held);
    const cuda::Sm90Packing packing = cuda::sm90_packing(problem_, mode_, held);
    const DType dtype = held ? DType::f16 : problem_.dtype;
    const int64_t slabs = core::ceil_div(problem_.cin_per_group(), layout.slab());
    const int64_t units = slabs * phases_.taps * layout.parts * cuda::kSm90Blocks * cuda::kSm90Rows;
    int wrong = 0;
    for (int64_t block = 0; block < problem_.groups * row_blocks_; ++block) {
      const int64_t group = block / row_blocks_, first_cout = block % row_blocks_ * block_couts_;
      std::vector<float> unscale(static_cast<std::size_t>(block_couts_), 1.0f);
      bool fits = true;
      for (int64_t i = 0; i < block_couts_ && first_cout + i < problem_.cout_per_group(); ++i) {
        if (held) unscale[static_cast<std::size_t>(i)] = unscale_of(group, first_cout + i, fits);
        const int64_t scale_at =
            base + packing.scales_at + 4 * (group * problem_.cout_per_group() + first_cout + i);
        if (held) {
          EXPECT_EQ(packed_at(scale_at, DType::f32), unscale[static_cast<std::size_t>(i)]) << text;
        }
        for_each_weight(group, first_cout + i, [&](float v) {
          fits = fits && std::isfinite(v) && !(mode_ == Arithmetic::ieee && too_small(v));
        });
      }
      const std::string what = text + (held ? ", held" : "") + ", row block " + std::to_string(block);
      expect_marks(base + packing.marks_at + cuda::kSm90RowMarks * block, !fits, what);
      for (int64_t unit = 0; unit < units && wrong < 5; ++unit) {
        const int64_t row = unit % cuda::kSm90Rows, inner = row / phases_.count;
        int64_t rest = unit / cuda::kSm90Rows;
        const int64_t channel_block = rest % cuda::kSm90Blocks;
        rest /= cuda::kSm90Blocks;
        const int part = static_cast<int>(rest % layout.parts);
        rest /= layout.parts;
        const int64_t k = row % phases_.count + rest % phases_.taps * phases_.tap_stride;
        const int64_t first = rest / phases_.taps * layout.slab() + channel_block * layout.unit;
        for (int e = 0; e < layout.unit; ++e) {
          const float v = inner < block_couts_ ? weight(group, first + e, first_cout + inner, k) : 0;
          float expected = part_of(mode_, v, part);
          if (held) {
            const double scaled = inner < block_couts_ ? v / unscale[static_cast<std::size_t>(inner)] : 0;
            std::byte half[2];
            reference::store(DType::f16, half, 0, scaled);
            expected = static_cast<float>(reference::load(DType::f16, half, 0));
          }
          const int element = 16 / layout.unit;
          const float got =
              packed_at(base + block * packing.row_block_bytes + unit * 16 + e * element, dtype);
          if (std::memcmp(&got, &expected, 4) == 0 || (got != got && expected != expected)) continue;
          ADD_FAILURE() << what << ", channel " << first + e << ", row " << row << ", k " << k << ", part "
                        << part << ": " << got << " is not " << expected;
          ++wrong;
        }
      }
    }
  }

  void expect_packed(const std::string& text, const std::vector<std::pair<int64_t, double>>& planted = {},
                     int lead = 0) {
    pack(text, planted, lead);
    if (HasFatalFailure()) return;
    expect_layout(0, false, text);
    if (mode_ == Arithmetic::tf32) {
      expect_layout(cuda::sm90_packing(problem_, mode_, false).bytes, true, text);
    }
  }

  core::Problem problem_;  // in its transposed form
  cuda::WeightSteps steps_;
  Arithmetic mode_{};
  cuda::Phases phases_{};
  int row_blocks_ = 0, block_couts_ = 0;
  std::vector<std::byte> weight_, packed_;
};

// Ragged channels and couts, phases without the last tap, phases out of order, groups, one cout a row block,
// row blocks in parts and channels over a cluster of blocks.
const char* const kShapes[] = {
    "n1 ci70 co70 l701 k5 s1 p2",   "n1 ci40 co48 l61 k16 s8 p4",   "n1 ci130 co40 l57 k7 s3 p1",
    "n1 ci64 co64 l90 k3 s2 p0 d2", "n1 ci96 co36 l64 k4 s2 p1 g2", "n1 ci33 co24 l30 k3 s5 p1 op2",
    "n1 ci40 co33 l33 k9 s6 p2 d5", "n1 ci17 co3 l33 k100 s64 p2",  "n1 ci512 co130 l33 k3 s1 p1",
    "n1 ci256 co256 l8 k16 s8 p4",  "n1 ci64 co2112 l8 k2 s2 p0"};

// Strided products, whose channels are pairs of channel and phase: taps that some phases lack, one channel,
// groups, and more taps of 8 channels than shared memory has room for.
const char* const kStrided[] = {
    "strided n1 ci70 co33 l701 k5 s2 p2",    "strided n1 ci130 co40 l64 k16 s8 p4",
    "strided n1 ci40 co48 l90 k7 s3 p1",     "strided n1 ci96 co36 l64 k4 s2 p1 g2",
    "strided n1 ci24 co65 l57 k7 s1 p3 d2",  "strided n1 ci2112 co16 l64 k4 s2 p1",
    "strided n1 ci20 co1 l4000 k500 s100",   "strided n1 ci9 co512 l60 k9 s2 p4",
    "strided n1 ci5 co6 l40000 k3001 s2 p0", "strided n1 ci3 co2 l200000 k20000 s16 p0"};

TEST_F(Packed, EveryMode) {
  for (const char* shape : kShapes) {
    for (const char* mode : {"f32 tf32", "f32", "f16", "bf16"})
      expect_packed(std::string(shape) + " " + mode);
  }
}

TEST_F(Packed, StridedInEveryMode) {
  for (const char* shape : kStrided) {
    for (const char* mode : {"f32 tf32", "f32", "f16", "bf16"})
      expect_packed(std::string(shape) + " " + mode);
  }
}

TEST_F(Packed, FromAnyAddress) {
  for (const char* shape : {kShapes[0], kShapes[1], kStrided[0], kStrided[1]}) {
    for (int lead : {4, 8, 12}) {
      expect_packed(std::string(shape) + " f32 tf32", {}, lead);
      expect_packed(std::string(shape) + " bf16", {}, lead - 2);
    }
  }
}

TEST_F(Packed, MarksWhatCannotBeHeld) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char* shape : {"n1 ci70 co150 l70 k5 s1 p2 ", "n1 ci130 co48 l61 k16 s8 p4 g2 "}) {
    for (const char* mode : {"f32 tf32", "f32", "bf16"}) {
      const std::string text = std::string(shape) + mode;
      expect_packed(text, {{12345, infinity}});
      expect_packed(text, {{7, -infinity}, {23456, std::nan("")}});
      expect_packed(text, {{9876, 0x1p-105}});               // far below the cout's others
      expect_packed(text, {{777, 0x1p14}, {778, 0x1p120}});  // the others far below
      expect_packed(text, {{4321, 0.0}, {4322, -0.0}, {999, 0x1.fffffep127}, {1000, 0x1p-140}});
    }
  }
}

// Couts of nothing but zeros, and of one magnitude each, up to the ends of float32's range.
TEST_F(Packed, ScalesOfAllMagnitudes) {
  std::vector<std::pair<int64_t, double>> planted;
  for (int64_t i = 0; i < 64 * 96 * 3; ++i) {
    const int64_t cout = i / 3 % 96;
    planted.emplace_back(
        i, cout == 5 ? 0.0 : std::ldexp(i % 2 == 0 ? -1.0 : 1.5, static_cast<int>(cout * 8 / 3) - 128));
  }
  for (const char* mode : {"f32 tf32", "f32"}) {
    expect_packed(std::string("n1 ci64 co96 l33 k3 s1 p1 ") + mode, planted);
  }
}

}  // namespace
}  // namespace tconv::gpu_test
