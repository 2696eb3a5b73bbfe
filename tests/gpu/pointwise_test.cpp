// Every configuration of the pointwise kernels, where operands begin on 16 bytes and where they do not.
#include <cstring>

#include "cuda/entries.hpp"
#include "cuda/sm80/pointwise_plan.hpp"
#include "cuda/sm80/splits.hpp"
#include "cuda/sm90/pointwise_plan.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Pointwise : public Gpu {};

struct PointwiseOperands {
  core::Problem problem;
  bool strided;
  std::vector<std::byte> x, weight;

  explicit PointwiseOperands(const char* text)
      : problem(core::parse(text).value()),
        strided(problem.operation == core::Operation::strided),
        x(DeviceOperands::integers(problem, strided ? problem.y_elements() : problem.x_elements(), 1)),
        weight(DeviceOperands::integers(problem, problem.weight_elements(), 2)) {}

  plan::Operands operands(const void* x_at, const void* weight_at, void* output) const {
    plan::Operands o;
    (strided ? o.grad_output : o.x) = x_at;
    o.weight = weight_at, o.output = output;
    return o;
  }
  std::vector<std::byte> expected() const {
    const int64_t count = strided ? problem.x_elements() : problem.y_elements();
    std::vector<std::byte> y(static_cast<std::size_t>(count) * size_of(problem.dtype));
    const plan::Operands host = operands(x.data(), weight.data(), nullptr);
    for (int64_t i = 0; i < count; ++i) {
      reference::store(problem.dtype, y.data(), i, reference::element_at(problem, host, i).value);
    }
    return y;
  }
};

// Device memory whose data begin some bytes behind its start.
struct Placed {
  Placed(const std::vector<std::byte>& data, std::size_t before)
      : offset(before), buffer(with(data, before)) {}
  static std::vector<std::byte> with(std::vector<std::byte> data, std::size_t before) {
    data.insert(data.begin(), before, std::byte{0xff});
    return data;
  }
  std::byte* get() { return static_cast<std::byte*>(buffer.get()) + offset; }

  std::size_t offset;
  Buffer buffer;
};

using Maker = std::unique_ptr<const plan::Kernel> (*)(const core::Problem&, const core::DeviceInfo&,
                                                      const cuda::PointwiseConfig&);

// All tiles and splits that fit, each on operands that begin on 16 bytes and one element behind. Returns how
// many there were.
int run_all(const char* text, int tiles, Maker make) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  const PointwiseOperands o(text);
  const core::Problem& p = o.problem;
  int run = 0;
  for (const std::size_t offset : {std::size_t{0}, size_of(p.dtype)}) {
    const std::vector<std::byte> expected = Placed::with(o.expected(), offset);
    Placed x(o.x, offset), weight(o.weight, offset);
    for (int tile = 0; tile < tiles; ++tile) {
      for (int splits = 1; splits <= cuda::kMostSplits; ++splits) {
        const auto kernel = make(p, device, {tile, splits});
        if (kernel == nullptr) continue;
        Placed y(std::vector<std::byte>(expected.size() - offset, std::byte{0xff}), offset);
        EXPECT_TRUE(kernel->run(o.operands(x.get(), weight.get(), y.get()), {}).ok());
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        EXPECT_TRUE(y.buffer.take() == expected)
            << text << ": tile " << tile << ", splits " << splits << ", offset " << offset;
        ++run;
      }
    }
  }
  return run;
}

TEST_F(Pointwise, ConfigurationsAreExactOnIntegers) {
  int run = 0;
  for (const char* text : {"strided n2 ci40 co30 l101 k1 s1 p0 f32 tf32", "n3 ci33 co53 l37 k1 s1 p0 f16",
                           "n2 ci20 co9 l50 k1 s1 p0 f32", "strided n5 ci66 co130 l64 k1 s1 p0 d3 g2 bf16",
                           "n1 ci130 co300 l3 k1 s1 p0 f32 tf32", "strided n4 ci17 co72 l262 k1 s1 p0 f32",
                           "n2 ci600 co136 l300 k1 s1 p0 g2 bf16", "strided n1 ci7 co999 l515 k1 s1 p0 f16",
                           "n1 ci257 co130 l132 k1 s1 p0 f32 tf32", "n2 ci256 co64 l256 k1 s1 p0 f32"}) {
    run += run_all(text, cuda::kPointwiseTileCount, cuda::pointwise_kernel);
  }
  EXPECT_GT(run, 150);
}

TEST_F(Pointwise, WgmmaConfigurationsAreExactOnIntegers) {
  if (cuda::device_info(0).value().sm != 90) GTEST_SKIP() << "no wgmma on this GPU";
  int run = 0;
  for (const char* text :
       {"strided n2 ci40 co36 l104 k1 s1 p0 f32 tf32", "n3 ci33 co56 l40 k1 s1 p0 f16",
        "n2 ci20 co12 l52 k1 s1 p0 f32 tf32", "strided n5 ci66 co144 l64 k1 s1 p0 d3 g2 bf16",
        "n1 ci130 co300 l4 k1 s1 p0 f32 tf32", "strided n4 ci17 co72 l260 k1 s1 p0 f32 tf32",
        "n2 ci600 co144 l304 k1 s1 p0 g2 bf16", "strided n1 ci7 co1000 l520 k1 s1 p0 f16",
        "n1 ci257 co132 l132 k1 s1 p0 f32 tf32", "strided n3 ci257 co260 l72 k1 s1 p0 f32 tf32",
        "strided n2 ci264 co256 l256 k1 s1 p0 bf16", "n2 ci256 co256 l520 k1 s1 p0 f16",
        "n2 ci255 co264 l136 k1 s1 p0 bf16", "strided n1 ci300 co128 l336 k1 s1 p0 bf16"}) {
    run += run_all(text, cuda::kSm90PointwiseTileCount, cuda::sm90_pointwise_kernel);
  }
  EXPECT_GT(run, 350);
}

// Float32 halfway between two numbers of tf32, of many magnitudes.
std::vector<std::byte> halfway(int64_t count, uint32_t seed) {
  std::vector<std::byte> data(static_cast<std::size_t>(count) * 4);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const uint32_t bits = (seed & 0x807fe000u) + 0x1000u + (120u + (seed >> 8) % 16) * 0x800000u;
    std::memcpy(data.data() + i * 4, &bits, 4);
  }
  return data;
}

TEST_F(Pointwise, CopiesByThreadsRoundAsTensorCopies) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "no tensor copies on this GPU";
  for (const char* text :
       {"strided n1 ci128 co96 l128 k1 s1 p0 f32 tf32", "n1 ci96 co128 l128 k1 s1 p0 f32 tf32"}) {
    PointwiseOperands o(text);
    o.x = halfway(static_cast<int64_t>(o.x.size()) / 4, 1);
    o.weight = halfway(static_cast<int64_t>(o.weight.size()) / 4, 2);
    std::vector<std::byte> outputs[2];
    for (const std::size_t offset : {std::size_t{0}, std::size_t{4}}) {
      Placed x(o.x, offset), weight(o.weight, offset);
      const std::size_t bytes = static_cast<std::size_t>(o.problem.output_elements()) * 4;
      Buffer y(std::vector<std::byte>(bytes, std::byte{0xff}));
      const auto kernel = cuda::sm90_pointwise_kernel(o.problem, device, {0, 1});
      ASSERT_NE(kernel, nullptr);
      ASSERT_TRUE(kernel->run(o.operands(x.get(), weight.get(), y.get()), {}).ok());
      ASSERT_CUDA(cudaDeviceSynchronize());
      outputs[offset / 4] = y.take();
    }
    EXPECT_TRUE(outputs[0] == outputs[1]) << text;
  }
}

}  // namespace
}  // namespace tconv::gpu_test
