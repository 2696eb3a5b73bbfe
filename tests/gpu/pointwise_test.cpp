// Every configuration of cuda.sm80.pointwise, where operands begin on 16 bytes and where they do not.
#include "cuda/entries.hpp"
#include "cuda/sm80/pointwise_plan.hpp"
#include "cuda/sm80/splits.hpp"
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

TEST_F(Pointwise, ConfigurationsAreExactOnIntegers) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  int run = 0;
  for (const char* text : {"strided n2 ci40 co30 l101 k1 s1 p0 f32 tf32", "n3 ci33 co53 l37 k1 s1 p0 f16",
                           "n2 ci20 co9 l50 k1 s1 p0 f32", "strided n5 ci66 co130 l64 k1 s1 p0 d3 g2 bf16",
                           "n1 ci130 co300 l3 k1 s1 p0 f32 tf32", "strided n4 ci17 co72 l262 k1 s1 p0 f32",
                           "n2 ci600 co136 l300 k1 s1 p0 g2 bf16", "strided n1 ci7 co999 l515 k1 s1 p0 f16",
                           "n1 ci257 co130 l132 k1 s1 p0 f32 tf32", "n2 ci256 co64 l256 k1 s1 p0 f32"}) {
    const PointwiseOperands o(text);
    const core::Problem& p = o.problem;
    for (const std::size_t offset : {std::size_t{0}, size_of(p.dtype)}) {
      const std::vector<std::byte> expected = Placed::with(o.expected(), offset);
      Placed x(o.x, offset), weight(o.weight, offset);
      for (int tile = 0; tile < cuda::kPointwiseTileCount; ++tile) {
        for (int splits = 1; splits <= cuda::kMostSplits; ++splits) {
          const auto kernel = cuda::pointwise_kernel(p, device, {tile, splits});
          if (kernel == nullptr) continue;
          Placed y(std::vector<std::byte>(expected.size() - offset, std::byte{0xff}), offset);
          ASSERT_TRUE(kernel->run(o.operands(x.get(), weight.get(), y.get()), {}).ok());
          ASSERT_CUDA(cudaDeviceSynchronize());
          EXPECT_TRUE(y.buffer.take() == expected)
              << text << ": tile " << tile << ", splits " << splits << ", offset " << offset;
          ++run;
        }
      }
    }
  }
  EXPECT_GT(run, 150);
}

}  // namespace
}  // namespace tconv::gpu_test
