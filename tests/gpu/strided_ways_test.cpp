// Every way of cuda.simt.strided.
#include <array>

#include "cuda/entries.hpp"
#include "cuda/simt/strided.hpp"
#include "cuda/simt/strided_staged.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class StridedWays : public Gpu {};

struct Way {
  std::string text;
  std::unique_ptr<const plan::Kernel> kernel;
};

// All of a problem: the staged one with every tile and with sums in one, two and more warps.
std::vector<Way> ways(const core::Problem& p, const core::DeviceInfo& device) {
  using namespace cuda::simt;
  const StridedConfig windows = plan_strided_windows(p);
  EXPECT_EQ(strided_direct_refusal(p), "");
  std::vector<Way> all;
  for (const StridedConfig& c : {windows, plan_strided_direct(p, kStridedFewPositions),
                                 plan_strided_direct(p, strided_most_positions(windows.rows))}) {
    all.push_back({c.text(), strided_kernel(p, device, c)});
  }
  if (!strided_staged_refusal(p, device).empty()) return all;
  for (const StridedTile& tile : kStridedTiles) {
    for (const auto& [along, rows, parts] : {std::array{4, 1, 1}, std::array{2, 2, 1}, std::array{1, 4, 1},
                                             std::array{1, 1, 8}, std::array{2, 1, 2}}) {
      const StridedStagedConfig c = strided_staged_config(p, device, tile, along, rows, parts);
      if (c.shared_bytes > 0) all.push_back({c.text(), strided_staged_kernel(p, device, c)});
    }
  }
  return all;
}

// Runs every way of a problem; how many gave exactly what the reference does.
int run_ways(const core::Problem& p, const std::vector<std::byte>& dy, const std::vector<std::byte>& weight) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  const std::vector<std::byte> bias = DeviceOperands::integers(p, p.cin, 3);
  plan::Operands host;
  host.weight = weight.data(), host.grad_output = dy.data(), host.bias = bias.data();
  std::vector<std::byte> expected(static_cast<std::size_t>(p.x_elements()) * size_of(p.dtype));
  for (int64_t i = 0; i < p.x_elements(); ++i) {
    reference::store(p.dtype, expected.data(), i, reference::element_at(p, host, i).value);
  }
  const Buffer dy_there(dy), weight_there(weight), bias_there(bias);
  int exact = 0;
  for (const Way& way : ways(p, device)) {
    Buffer dx(expected.size());
    dx.fill(0xff);
    plan::Operands operands;
    operands.grad_output = dy_there.get(), operands.weight = weight_there.get();
    operands.bias = bias_there.get(), operands.output = dx.get();
    EXPECT_TRUE(way.kernel->run(operands, {}).ok());
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const bool same = dx.take() == expected;
    EXPECT_TRUE(same) << text(p) << ": " << way.text;
    exact += same;
  }
  return exact;
}

TEST_F(StridedWays, AreExactOnIntegers) {
  int exact = 0;
  for (const char* line :
       {"strided n2 ci40 co40 l101 k16 s8 p4 g40 f32", "strided n3 ci33 co53 l37 k5 s3 p1 op1 f16",
        "strided n2 ci20 co9 l50 k300 s7 p5 f32", "strided n5 ci66 co132 l64 k7 s1 p9 d3 g66 bf16",
        "strided n1 ci6 co12 l2500 k4 s2 p1 g3 f64", "strided n4 ci8 co72 l60 k1 s1 p0 g2 f32",
        "strided n20 ci24 co24 l3 k41 s1 p20 g24 bf16", "strided n1 ci3 co3 l4000 k3 s1 p1 g3 f64",
        "strided n1 ci17 co70 l1500 k3 s2 p1 op1 bias f32", "strided n2 ci34 co21 l700 k11 s12 g1 bias bf16",
        "strided n1 ci1 co224 l900 k5 s1 p2 f32", "strided n2 ci5 co7 l800 k4 s6 p3 d4 bias f32"}) {
    const core::Problem p = core::parse(line).value();
    exact += run_ways(p, DeviceOperands::integers(p, p.y_elements(), 1),
                      DeviceOperands::integers(p, p.weight_elements(), 2));
  }
  EXPECT_GT(exact, 200);
}

// Beside a weight that is not finite the zeros around dy would be NaN.
TEST_F(StridedWays, MakeNoProductsOutsideDy) {
  int exact = 0;
  for (const char* line :
       {"strided n2 ci9 co12 l300 k7 s2 p9 d2 bias f32", "strided n1 ci20 co6 l200 k5 s1 p12 bf16"}) {
    const core::Problem p = core::parse(line).value();
    std::vector<std::byte> weight = DeviceOperands::integers(p, p.weight_elements(), 2);
    const double infinity = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < p.weight_elements(); i += 37)
      reference::store(p.dtype, weight.data(), i, infinity);
    reference::store(p.dtype, weight.data(), 5, std::numeric_limits<double>::quiet_NaN());
    exact += run_ways(p, DeviceOperands::integers(p, p.y_elements(), 1), weight);
  }
  EXPECT_GT(exact, 35);
}

}  // namespace
}  // namespace tconv::gpu_test
