// The cost model of cuda.sm80.weight.
#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/weight_layout.hpp"
#include "cuda/sm80/weight_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// Fitted to 3,864 configurations of 470 problems, most of them drawn, in tf32, bf16 and ieee (H200, in a
// graph): half of the times are within 6%, 90% within 19%, and the choice takes 1.02 times as long as the
// fastest measured.
constexpr double kClock = 1.7e9, kL2BytesPerCycle = 21;
// Of a launch, of each round of blocks, and of the second kernel.
constexpr double kLaunchSeconds = 2.9e-6, kRoundSeconds = 0.37e-6, kSumSeconds = 1.3e-6;
// Cycles that a block waits in a stage: always; for copies, over the number of stages under way ahead of it;
// and for each element of x that a thread loads and stores itself.
constexpr double kStageCycles = 730, kWaitCycles = 1440, kElementCycles = 81;
// Cycles of a warp for one of its loads from shared memory, and of a scheduler for an instruction (of 16 bits
// there are more than are counted below); instructions that copy a unit of x, and of a piece beside its
// lines.
constexpr double kLoadCycles = 0.12, kIssueCycles = 1.18, kHalfIssueCycles = 1.92;
constexpr double kCopyX = 18, kPiece = 94;
// The end of a chain in a block: the sums of the fragments of a column, each with those of half a row.
constexpr double kColumnCycles = 296;
constexpr double kPartBytesPerSecond = 0.93e12, kDirectBytesPerSecond = 0.96e12;
constexpr double kSectorCycles = 0.71;  // for 32 bytes of dw or a part of them, of a block that stores dw
// The units overlap, but not perfectly.
constexpr double kBeside = 0.34;

double product_rate(Arithmetic mode, const core::DeviceInfo& device) {
  // On Hopper, mma.sync attains about three quarters of the rate of wgmma.
  const double share = device.sm == 90 ? 0.72 : 0.9;
  switch (mode) {
    case Arithmetic::tf32:
      return share * device.tf32_gflops * 1e9;
    case Arithmetic::ieee:
      return share * device.tf32_gflops * 1e9 / 3;
    case Arithmetic::f64:
      return 0.8 * device.fp64_gflops * 1e9;
    case Arithmetic::f16:
    case Arithmetic::bf16:
      break;
  }
  return share * device.half_gflops * 1e9;
}

}  // namespace

int64_t weight_resident_blocks(Arithmetic mode, const core::DeviceInfo& device, const WeightTile& tile,
                               int64_t slot_bytes) {
  // Sums take twice the registers there: the launch bounds in functions_of (weight.cuh).
  const bool wide = mode == Arithmetic::ieee || mode == Arithmetic::f64;
  const int64_t by_registers = wide && tile.mi * tile.ni >= 8 ? 1 : tile.blocks;
  const int64_t room = device.shared_per_sm / (int64_t{kWeightLeastSlots} * slot_bytes + kSharedOfSystem);
  return std::clamp<int64_t>(room, 1, by_registers);
}

namespace {

// Instructions of the warps that copy a stage, without those of elements.
double copy_instructions(const WeightParams& k, const WeightTile& tile, int element, int64_t x_turns) {
  const int64_t lines = int64_t{k.block_couts} * k.stage_pieces, units = k.piece_pitch / (16 / element);
  const int64_t turns = ceil_div(lines << k.line_shift, int64_t{tile.threads()});
  const double of_line = kWeightLine + kWeightLineUnit * double(ceil_div(units, int64_t{1} << k.line_shift));
  const double warps = tile.threads() / 32.0;
  return warps * (double(x_turns) * kCopyX + double(turns) * of_line + k.stage_pieces * kPiece);
}

// Seconds of an SM for 32 bytes of positions (kWeightStepBytes) of a block, by unit, without copies.
struct StepCost {
  double tensor, shared, issue;
};

StepCost step_cost(Arithmetic mode, const core::DeviceInfo& device, const WeightTile& tile) {
  const int element = shape_of(mode).element;
  const double flops = 2.0 * tile.rows() * tile.columns() * kWeightStepBytes / element;
  const double sms = std::max(1, device.sm_count), warps = tile.warp_rows * tile.warp_columns;
  const double loads = tile.mi * 4 + tile.ni * (element == 2 ? 4 : 2);
  // Two to round an operand, six to split it.
  const double words = element == 4 ? tile.mi * 4 + tile.ni * 2 : 0;
  const bool parts = mode == Arithmetic::ieee;
  const double instructions = words * (parts ? 6 : 2) + loads + 10 + tile.mi * tile.ni * (parts ? 9 : 1) +
                              (element == 2 ? 2 * tile.ni : 0);
  return {flops / (product_rate(mode, device) / sms), warps * loads * kLoadCycles / kClock,
          warps * instructions * (element == 2 ? kHalfIssueCycles : kIssueCycles) / 4 / kClock};
}

double units_together(double tensor, double shared, double l2, double issue) {
  const double most = std::max({tensor, shared, l2, issue});
  return most + kBeside * (tensor + shared + l2 + issue - most);
}

}  // namespace

WeightStageCost weight_stage_cost(const WeightPlan& plan, const core::DeviceInfo& device,
                                  const WeightTile& tile) {
  const WeightParams& k = plan.params;
  const int element = shape_of(plan.mode).element;
  const int64_t positions = int64_t{k.piece} * k.stage_pieces;
  const int64_t x_elements = positions * std::min(tile.rows(), k.cin_group);
  const double y_elements = double(k.block_couts) * k.stage_pieces * k.piece_pitch;
  const double steps = double(positions) * element / kWeightStepBytes;
  const StepCost step = step_cost(plan.mode, device, tile);
  const int unit = k.copy == WeightCopy::vectors                 ? 16 / element
                   : k.copy == WeightCopy::words && element == 2 ? 2
                                                                 : 1;
  const int64_t x_turns = ceil_div(x_elements, int64_t{unit} * tile.threads());
  const bool by_element = element == 2 && k.copy == WeightCopy::elements;
  const double tensor = steps * step.tensor, shared = steps * step.shared;
  const double issue = steps * step.issue + copy_instructions(k, tile, element, x_turns) / 4 / kClock;
  const double l2 = (double(x_elements) + y_elements) * element / kL2BytesPerCycle / kClock;
  const double wait =
      kStageCycles + kWaitCycles / (k.slots - 1) + (by_element ? kElementCycles * double(x_turns) : 0);
  const auto resident = static_cast<double>(weight_resident_blocks(plan.mode, device, tile, k.slot_bytes));
  return {tensor, shared, l2, units_together(tensor, shared, l2, issue), wait / kClock, resident};
}

void set_weight_cost(WeightPlan& plan, const core::DeviceInfo& device, const WeightTile& tile,
                     const WeightStageCost& stage) {
  const WeightParams& k = plan.params;
  const int64_t sms = std::max(1, device.sm_count);
  const double per_split = double(ceil_div(std::max(1, k.stages), k.splits));
  const auto resident =
      std::min(static_cast<int64_t>(stage.resident), std::max<int64_t>(1, ceil_div(plan.blocks, sms)));
  const double rounds = double(std::max<int64_t>(1, ceil_div(plan.blocks, sms * resident)));
  const double blocks = rounds * double(resident);  // of an SM
  const double turns = blocks * per_split;
  WeightCost& c = plan.cost;
  c.tensor = turns * stage.tensor;
  c.shared = turns * stage.shared;
  c.l2 = turns * stage.l2;
  // The resident blocks work in turn, and wait at the same time.
  const double stages = rounds * per_split * std::max(double(resident) * stage.work, stage.work + stage.wait);
  const double chains = std::ceil(per_split / k.chain);
  const double ends = blocks * chains * kColumnCycles / kClock * tile.ni * (1 + tile.mi / 2.0);
  const int element = shape_of(plan.mode).element;
  const double dw = double(plan.dw_elements) * element, part = dw * (element == 2 ? 2 : 1);
  const double sectors = blocks * tile.rows() * tile.columns() / weight_run(k, element);
  c.sum = k.direct ? dw / kDirectBytesPerSecond + sectors * kSectorCycles / kClock
                   : kSumSeconds + k.splits * part / kPartBytesPerSecond;
  c.total = kLaunchSeconds + rounds * kRoundSeconds + overlapped(stages + ends, c.dram) + c.sum;
}

double weight_least_seconds(const Problem& p, const core::DeviceInfo& device, int tile, int64_t tiles) {
  const Arithmetic mode = arithmetic_of(p);
  const StepCost step = step_cost(mode, device, kWeightTileTable[tile]);
  const double positions = double(p.n) * double(p.l), sms = std::max(1, device.sm_count);
  const double steps = double(tiles) * positions * shape_of(mode).element / kWeightStepBytes / sms;
  const double products = steps * units_together(step.tensor, step.shared, 0, step.issue);
  return kLaunchSeconds + kRoundSeconds +
         overlapped(products, problem_work(p).bytes / (device.copy_gbps * 1e9));
}

double weight_least_seconds(const WeightPlan& plan, const core::DeviceInfo& device,
                            const WeightStageCost& stage) {
  const WeightParams& k = plan.params;
  const double each = std::max(stage.work, (stage.work + stage.wait) / stage.resident);
  const double stages = double(k.tiles) * k.stages * each / std::max(1, device.sm_count);
  return kLaunchSeconds + kRoundSeconds + overlapped(stages, plan.cost.dram);
}

}  // namespace tconv::cuda
