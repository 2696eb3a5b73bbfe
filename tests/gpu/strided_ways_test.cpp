// Every way of cuda.simt.strided.
#include <algorithm>
#include <array>

#include "cuda/entries.hpp"
#include "cuda/simt/flipped.hpp"
#include "cuda/simt/strided.hpp"
#include "cuda/simt/strided_residues.hpp"
#include "cuda/simt/strided_sliding.hpp"
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
  if (strided_sliding_refusal(p, device).empty()) {
    StridedConfig c = plan_strided_sliding(p);
    all.push_back({c.text(), strided_kernel(p, device, c)});
    // As of more blocks than the device needs.
    if (c.resident) {
      c.turns = std::min<int64_t>(c.row_tiles, 3);
    } else {
      c.walk = std::min<int64_t>(c.parts, 3);
    }
    all.push_back({c.text() + ", more a block", strided_kernel(p, device, c)});
  }
  if (strided_residue_refusal(p).empty()) {
    const StridedResidueConfig c = plan_strided_residues(p, device);
    all.push_back({c.text(), strided_residue_kernel(p, device, c)});
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

// The ways of cuda.simt.flipped.
std::vector<Way> flipped_ways(const core::Problem& p, const core::DeviceInfo& device) {
  using namespace cuda::simt;
  const core::Problem form = *flipped_form(p);
  std::vector<Way> all;
  const StridedConfig direct = plan_strided_direct(form, device);
  all.push_back({"flipped, " + direct.text(), flipped_kernel(p, device, direct)});
  if (strided_sliding_refusal(form, device).empty()) {
    const StridedConfig sliding = plan_strided_sliding(form);
    all.push_back({"flipped, " + sliding.text(), flipped_kernel(p, device, sliding)});
  }
  return all;
}

// Runs every way of a problem; how many gave exactly what the reference does. from: dy, or x.
int run_ways(const core::Problem& p, const std::vector<std::byte>& from,
             const std::vector<std::byte>& weight) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  const bool strided = p.operation == core::Operation::strided;
  const std::vector<std::byte> bias = DeviceOperands::integers(p, strided ? p.cin : p.cout, 3);
  plan::Operands host;
  host.weight = weight.data(), host.bias = bias.data();
  (strided ? host.grad_output : host.x) = from.data();
  const std::vector<std::byte> expected = rounded_reference(p, host);
  const Buffer from_there(from), weight_there(weight), bias_there(bias);
  int exact = 0;
  for (const Way& way : strided ? ways(p, device) : flipped_ways(p, device)) {
    Buffer dx(expected.size());
    dx.fill(0xff);
    plan::Operands operands;
    (strided ? operands.grad_output : operands.x) = from_there.get(), operands.weight = weight_there.get();
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
       {"strided n2 ci40 co40 l101 k16 s8 p4 g40 f32",      "strided n3 ci33 co53 l37 k5 s3 p1 op1 f16",
        "strided n2 ci20 co9 l50 k300 s7 p5 f32",           "strided n5 ci66 co132 l64 k7 s1 p9 d3 g66 bf16",
        "strided n1 ci6 co12 l2500 k4 s2 p1 g3 f64",        "strided n4 ci8 co72 l60 k1 s1 p0 g2 f32",
        "strided n20 ci24 co24 l3 k41 s1 p20 g24 bf16",     "strided n1 ci3 co3 l4000 k3 s1 p1 g3 f64",
        "strided n1 ci17 co70 l1500 k3 s2 p1 op1 bias f32", "strided n2 ci34 co21 l700 k11 s12 g1 bias bf16",
        "strided n1 ci1 co224 l900 k5 s1 p2 f32",           "strided n1 ci2 co3 l60001 k3 s1 p1 bf16",
        "strided n3 ci5 co1 l20011 k7 s1 p9 d3 bias f16",   "strided n2 ci70 co2 l333 k4 s2 p1 bias bf16",
        "strided n1 ci8 co30 l9001 k21 s2 p9 f32",          "strided n2 ci9 co9 l5001 k2 s2 p0 g9 bias bf16",
        "strided n9 ci37 co2 l210 k3 s1 p1 bias bf16",      "strided n6 ci20 co3 l401 k4 s2 p1 f32",
        "strided n5 ci10 co1 l1101 k6 s1 p4 bias f16",      "strided n1 ci3 co97 l1500 k17 s1 p4 bias bf16",
        "strided n2 ci5 co7 l800 k4 s6 p3 d4 bias f32",     "strided n2 ci3 co20 l500 k21 s16 p2 bias bf16",
        "strided n3 ci6 co10 l77 k20 s12 p5 g2 op5 f16",    "strided n1 ci16 co4 l900 k3 s3 bias f32",
        "strided n2 ci1 co8 l40 k150 s60 p70 f32",          "strided n1 ci2 co9 l1201 k12 s2 p3 f16"}) {
    const core::Problem p = core::parse(line).value();
    exact += run_ways(p, DeviceOperands::integers(p, p.y_elements(), 1),
                      DeviceOperands::integers(p, p.weight_elements(), 2));
  }
  EXPECT_GT(exact, 200);
}

TEST_F(StridedWays, AreExactOnIntegersFlipped) {
  int exact = 0;
  for (const char* line : {"n2 ci3 co5 l3001 k7 s1 p3 bias f32", "n1 ci40 co1 l2500 k5 s1 p2 bf16",
                           "n3 ci1 co70 l1999 k3 s1 f16", "n2 ci24 co24 l4097 k9 s1 p4 g24 bias bf16",
                           "n1 ci6 co10 l1500 k3 s1 p1 g2 f32", "n2 ci9 co2 l700 k4 s1 d3 bias f32"}) {
    const core::Problem p = core::parse(line).value();
    exact += run_ways(p, DeviceOperands::integers(p, p.x_elements(), 1),
                      DeviceOperands::integers(p, p.weight_elements(), 2));
  }
  EXPECT_EQ(exact, 11);
}

// Beside a weight that is not finite the zeros around dy would be NaN.
TEST_F(StridedWays, MakeNoProductsOutsideDy) {
  int exact = 0;
  for (const char* line :
       {"strided n2 ci9 co12 l300 k7 s2 p9 d2 bias f32", "strided n1 ci20 co6 l200 k5 s1 p12 bf16",
        "strided n1 ci2 co5 l1100 k9 s2 p8 f32", "strided n2 ci9 co2 l1300 k7 s1 p6 bias f16",
        "strided n2 ci2 co9 l301 k11 s4 p10 op2 bias f32", "strided n1 ci1 co20 l77 k40 s16 p39 bf16"}) {
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
