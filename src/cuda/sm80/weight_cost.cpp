// The cost model of cuda.sm80.weight.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/weight_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// Cycles of the four schedulers for moving sixteen bytes to shared memory, a warp's 32 at a time.
constexpr double kCopyCycles = 20.0 / 32 / 4;
constexpr double kLaunchSeconds = 2.5e-6, kWaveSeconds = 1.5e-6, kStageSeconds = 0.25e-6;
constexpr double kClock = 1.7e9, kL2BytesPerCycle = 26;
// The units overlap, but not perfectly, and the first stages of a block wait for memory.
constexpr double kBeside = 0.2, kTensorExcess = 1 + kBeside, kDramExcess = 1.05;

double product_rate(Arithmetic mode, const core::DeviceInfo& device) {
  // On Hopper, mma.sync attains about three quarters of the rate of wgmma.
  const double share = device.sm == 90 ? 0.72 : 0.9;
  switch (mode) {
    case Arithmetic::tf32:
      return share * device.tf32_gflops * 1e9;
    case Arithmetic::ieee:
      return share * device.tf32_gflops * 1e9 / 3.3;
    case Arithmetic::f64:
      return 0.8 * device.fp64_gflops * 1e9;
    case Arithmetic::f16:
    case Arithmetic::bf16:
      break;
  }
  return share * device.half_gflops * 1e9;
}

}  // namespace

int64_t weight_resident_blocks(const core::DeviceInfo& device, const WeightTile& tile, int64_t slot_bytes) {
  const int64_t room = device.shared_per_sm / (int64_t{kWeightSlots} * slot_bytes + 1024);
  return std::clamp<int64_t>(room, 1, tile.blocks);
}

WeightStageCost weight_stage_cost(const WeightPlan& plan, const core::DeviceInfo& device,
                                  const WeightTile& tile) {
  const WeightParams& k = plan.params;
  const int element = shape_of(plan.mode).element;
  const double sms = std::max(1, device.sm_count), positions = k.piece * k.stage_pieces;
  const double x_elements = positions * std::min(tile.rows(), k.cin_group);
  const double y_elements = double(k.block_couts) * k.stage_pieces * k.piece_pitch;
  const double tensor =
      2.0 * tile.rows() * tile.columns() * positions / (product_rate(plan.mode, device) / sms);
  const double steps = positions * element / kWeightStepBytes * tile.warp_rows * tile.warp_columns;
  const double copies = (x_elements + y_elements) * element / 16 * kCopyCycles;
  const double loads = tile.mi * 4 + tile.ni * (element == 2 ? 4 : 2);
  const double shared = steps * loads / kClock;
  // Instructions: two to round an operand, six to split it.
  const double words = element == 4 ? tile.mi * 4 + tile.ni * 2 : 0;
  const double each = plan.mode == Arithmetic::ieee ? 6 : 2, products = tile.mi * tile.ni;
  const double instructions = words * each + loads + 10 + products * (plan.mode == Arithmetic::ieee ? 9 : 1) +
                              (element == 2 ? 2 * tile.ni : 0);
  const double issue = (steps * instructions / 4 + copies) / 0.6 / kClock;
  const double l2 = (x_elements + y_elements) * element / kL2BytesPerCycle / kClock;
  const auto resident = static_cast<double>(weight_resident_blocks(device, tile, k.slot_bytes));
  const double busy =
      std::max({tensor, shared, l2, issue}) + kBeside * (tensor + shared + l2) + kStageSeconds / resident;
  return {tensor, shared, l2, busy, resident};
}

void set_weight_cost(WeightPlan& plan, const core::DeviceInfo& device, const WeightTile& tile,
                     const WeightStageCost& stage) {
  const WeightParams& k = plan.params;
  const int64_t sms = std::max(1, device.sm_count);
  const double per_split = double(ceil_div(k.stages, k.splits));
  const double turns = double(std::max<int64_t>(1, ceil_div(plan.blocks, sms)));
  const double waves = double(ceil_div(plan.blocks, sms * static_cast<int64_t>(stage.resident)));
  WeightCost& c = plan.cost;
  c.tensor = turns * per_split * stage.tensor;
  c.shared = turns * per_split * stage.shared;
  c.l2 = turns * per_split * stage.l2;
  const int element = shape_of(plan.mode).element;
  const double part = static_cast<double>(k.tiles) * tile.rows() * tile.columns() * (element == 8 ? 8 : 4);
  c.sum = k.direct ? 0 : 2.5e-6 + 2 * part * k.splits / 2.5e12;
  const double stages = turns * per_split * stage.busy;
  c.total = kLaunchSeconds + waves * kWaveSeconds + std::max(stages, kDramExcess * c.dram) + c.sum;
}

double weight_least_seconds(const Problem& p, const core::DeviceInfo& device) {
  const core::Work& work = problem_work(p);
  const double products = kTensorExcess * work.flops / product_rate(arithmetic_of(p), device);
  return kLaunchSeconds + kWaveSeconds +
         std::max(products, kDramExcess * work.bytes / (device.copy_gbps * 1e9));
}

}  // namespace tconv::cuda
