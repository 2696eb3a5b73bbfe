// The expected times of cuda.simt.depthwise, way by way.
#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/host/expected_ms.hpp"
#include "cuda/simt/cube.hpp"
#include "cuda/simt/depthwise_plan.hpp"

namespace tconv::cuda::simt {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

// Rows in windows: every output channel reads its group's inputs again, from the L2 cache; an output, by
// float32 and 16 bit; a multiply-add and the inputs read again, by x in words and in single elements; a row
// of y. Fitted to 55 drawn problems where it is among the fastest (H100): off by 18%.
struct RowWeights {
  double start = 3.9e-3, memory = 1.02, output[2] = {0.033e-9, 0.372e-9};
  double product[2][2] = {{0.013e-9, 0.026e-9}, {0.079e-9, 0.210e-9}}, again[2] = {0.06, 0.67};
  double row = 0.23e-6;
  // Medians of measured over expected times of 33 drawn layers where others come near, by float32 and 16 bit
  // (H200).
  double whole[2] = {1.15, 0.9};
} constexpr kRows;
// Run flat, float32 and 16 bit: a multiply-add with its two loads from L1, an output's place in its row.
// Fitted to 61 problems (H100), within 8% and 18% (standard deviation).
struct FlatWeights {
  double start, memory, product, output;
};
constexpr FlatWeights kFlat[2] = {{2.1e-3, 0.82, 0.43e-9, 0.64e-9}, {1.3e-3, 0.29, 0.68e-9, 1.38e-9}};
// Wide, float32 and 16 bit: issue slots of a scheduler for a warp's output, a load, a multiply-add, a step of
// the loop, and a block; cycles that a step waits; of the time of memory, and of x that other rows' blocks
// read again. Fitted to 712 times of 356 drawn layers (H200): half of them are within 5%, 90% within 16%.
struct WideWeights {
  double start = 3.7e-3, memory[2] = {1.25, 1.40}, again = 1.03;
  double output[2] = {14.1, 11.8}, load[2] = {1.4, 3.0}, product = 1.97, step = 9.1, block = 183, wait = 174;
  double clock = 1.7e6;  // cycles in a millisecond
} constexpr kWide;

double flat_ms(const Problem& p, const DeviceInfo& d, bool half) {
  const auto outputs = static_cast<double>(p.y_elements()),
             terms = static_cast<double>(depthwise_products(p));
  const FlatWeights& w = kFlat[half];
  return w.start + w.memory * memory_ms(p, d) + slower(d) * outputs * (w.product * terms + w.output);
}

double rows_ms(const Problem& p, const DeviceInfo& d, bool half, bool elements) {
  const auto outputs = static_cast<double>(p.y_elements()), rows = static_cast<double>(p.n * p.cout);
  const double products = outputs * static_cast<double>(p.cin_per_group() * ceil_div(p.k, p.stride));
  const double again = static_cast<double>(p.x_elements() * (p.cout_per_group() - 1)) *
                       static_cast<double>(size_of(p.dtype)) / std::max(1.0, d.copy_gbps) * 1e-6;
  const RowWeights& w = kRows;
  const double ms =
      w.start + w.memory * memory_ms(p, d) + w.again[elements] * again +
      slower(d) * (w.product[elements][half] * products + w.output[half] * outputs + w.row * rows);
  return w.whole[half] * ms;
}

double wide_ms(const DepthwiseConfig& c, const Problem& p, const DeviceInfo& d, bool half) {
  constexpr double kResident = 4;  // blocks of an SM
  const WideWeights& w = kWide;
  const auto terms = static_cast<double>(p.cin_per_group() * ceil_div(p.k, p.stride)),
             outputs = static_cast<double>(c.run * c.runs), loads = static_cast<double>(c.run + c.runs);
  const double slots =
      outputs * w.output[half] + terms * (outputs * w.product + loads * w.load[half] + w.step) + w.block;
  const double blocks = static_cast<double>(c.blocks) / std::max(1, d.sm_count), depth = std::ceil(blocks);
  // An SM has four schedulers, a block four warps.
  const double busy = slower(d) * (blocks + depth) / 2 * slots / w.clock;
  const double wait = std::ceil(depth / kResident) * terms * w.wait / w.clock;
  const double again = static_cast<double>(p.x_elements() * c.cout_blocks) *
                       static_cast<double>(size_of(p.dtype)) / std::max(1.0, d.copy_gbps) * 1e-6;
  const double memory = w.memory[half] * memory_ms(p, d) + w.again * again;
  return w.start + std::cbrt(cube(busy) + cube(memory) + cube(wait));
}

}  // namespace

double depthwise_ms(const DepthwiseConfig& config, const Problem& p, const DeviceInfo& d) {
  const bool half = size_of(p.dtype) == 2;
  switch (config.way) {
    case DepthwiseWay::flat:
      return flat_ms(p, d, half);
    case DepthwiseWay::wide:
      return wide_ms(config, p, d, half);
    case DepthwiseWay::words:
    case DepthwiseWay::elements:
      break;
  }
  return rows_ms(p, d, half, config.way == DepthwiseWay::elements);
}

}  // namespace tconv::cuda::simt
