// Every way of cuda.simt.depthwise: exact on integers, and the same bits as the others.
#include "cuda/entries.hpp"
#include "cuda/simt/depthwise_plan.hpp"
#include "cuda/simt/depthwise_wide.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Depthwise : public Gpu {};

// All of a problem, flat first.
std::vector<cuda::simt::DepthwiseConfig> ways(const core::Problem& p, const core::DeviceInfo& device) {
  using namespace cuda::simt;
  EXPECT_EQ(depthwise_flat_refusal(p), "");
  std::vector<DepthwiseConfig> all = {depthwise_flat(p)};
  if (depthwise_wide_refusal(p).empty()) {
    for (const int64_t run : {kDepthwiseWideLong, kDepthwiseWideShort}) {
      all.push_back(depthwise_wide(p, run));
    }
  }
  if (!depthwise_rows_refusal(p, device).empty()) return all;
  all.push_back(depthwise_rows(p, device, false));
  if (p.cin_per_group() == 1 && p.positions_contiguous()) all.push_back(depthwise_rows(p, device, true));
  return all;
}

constexpr const char* kShapes[] = {"n5 ci6 co6 l17 k2 s2 p0 g6 bias ",
                                   "n3 ci5 co5 l9 k7 s1 p2 g5 ",
                                   "n4 ci8 co12 l13 k9 s4 p3 op2 g4 bias ",
                                   "n2 ci4 co4 l700 k12 s2 p5 g4 bias ",
                                   "n3 ci16 co4 l33 k17 s8 p3 g2 bias ",
                                   "n3 ci4 co4 l3 k1 s4 p0 op3 g4 bias ",
                                   "n7 ci3 co3 l1 k3 s1 p1 g3 bias ",
                                   "n2 ci3 co6 l4 k31 s1 p15 g3 bias ",
                                   "n3 ci6 co6 l40 k4 s2 p1 g6 xs600,90,2 bias ",
                                   "n3 ci5 co10 l11 k7 s3 p4 op1 g5 bias ",
                                   "n2 ci6 co6 l19 k3 s5 p2 op4 g6 bias ",
                                   "n2 ci3 co21 l300 k21 s16 p2 bias ",
                                   "n3 ci4 co32 l99 k7 s16 g2 bias ",
                                   "n2 ci16 co18 l201 k12 s5 p4 op2 g2 bias ",
                                   "n1 ci1 co8 l2100 k5 s1 p2 bias ",
                                   "n2 ci2 co11 l5 k300 s100 p150 xs700,350,3 "};
constexpr const char* kTypes[] = {"f32", "f16", "bf16"};

TEST_F(Depthwise, WaysAreExactOnIntegers) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* shape : kShapes) {
    for (const char* type : kTypes) {
      DeviceOperands o(std::string(shape) + type);
      o.make_integers();
      const std::vector<std::byte> expected = o.rounded_reference();
      for (const auto& c : ways(o.problem, device)) {
        const auto kernel = cuda::simt::depthwise_kernel(o.problem, device, c);
        EXPECT_TRUE(run_once(*kernel, o) == expected) << core::text(o.problem) << ": " << c.text();
      }
    }
  }
}

// Of operands so small that some products underflow: a sum may be -0.0, to which a zero outside x is added or
// not. A batch's size may decide on the way, so that the bits must not depend on it.
TEST_F(Depthwise, WaysHaveTheSameBits) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* shape : kShapes) {
    for (const char* type : kTypes) {
      for (const double scale : {1.0, 1e-23}) {
        DeviceOperands o(std::string(shape) + type);
        if (o.problem.dtype == core::DType::f16 && scale < 1) continue;  // its products do not underflow
        for (std::vector<std::byte>* data : {&o.x, &o.weight, &o.bias}) {
          const auto count = static_cast<int64_t>(data->size() / core::size_of(o.problem.dtype));
          const double by = data == &o.bias && scale < 1 ? 0 : scale;
          for (int64_t i = 0; i < count; ++i) {
            const double value = reference::load(o.problem.dtype, data->data(), i);
            reference::store(o.problem.dtype, data->data(), i, by * value);
          }
        }
        o.x_device.put(o.x), o.weight_device.put(o.weight), o.bias_device.put(o.bias);
        std::vector<std::byte> first;
        for (const auto& c : ways(o.problem, device)) {
          const auto y = run_once(*cuda::simt::depthwise_kernel(o.problem, device, c), o);
          if (first.empty()) first = y;
          EXPECT_TRUE(y == first) << core::text(o.problem) << " times " << scale << ": " << c.text();
        }
      }
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
