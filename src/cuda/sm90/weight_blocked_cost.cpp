// The expected time of a plan of cuda.sm90.weight_blocked.
#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/weight.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// Fitted to 2,500 times of 504 drawn layers on one H100, in its units in a second or a cycle: off by 11% in
// 16-bit types, 14% in tf32, 7% in ieee, 10% and 6% if scaled. kStage: cycles of a stage that nothing hides;
// in ieee a warpgroup waits for its wgmma several times.
constexpr double kClock = 1.57e9, kL2BytesPerCycle = 55, kTensorShare = 0.97;
constexpr double kStage = 165, kStageOfWords = 50, kStageOfParts = 260;
constexpr double kPassBytes = 2.6e12, kDramBytes = 2.8e12, kLaunch = 2.0e-6;
// Fitted to 22 looks on an H200, in units that the choice turns into seconds (kBlockedWeights). The pass and
// the last sums wait for what a look found.
constexpr double kLook = 6.5e-6, kLookBytes = 3.4e12, kScaledEnd = 1.6e-6;
// Bytes a second of a pass of tf32, and the end of a tile that stores dw: seconds, those of a column, and
// cycles of a sector. Fitted in the same units to 1,550 configurations of 246 drawn layers on an H200, of
// which 328 store dw.
constexpr double kWordPassBytes = 2.9e12, kEnd = 1.95e-6, kEndColumn = 0.008e-6, kEndSector = 1.5;
constexpr double kSplitEnd = 3.3e-6;  // seconds, of a tile that stores a part

// Sectors of dw, of 32 bytes, that an element takes on average where a tile stores runs of neighbouring
// phases.
double sectors_of_element(const Sm90WeightBlockedParams& k, double size) {
  if (k.k == k.y_planes) return size / 32;  // neighbouring channels go on where a run ends
  const double run = least_phases(k), bytes = run * size;
  const bool aligned =
      std::fmod(double(k.k) * size, 32) == 0 && std::fmod(double(k.tap_stride) * size, 32) == 0;
  return (aligned ? std::ceil(bytes / 32) : 1 + (bytes - size) / 32) / run;
}

}  // namespace

Sm90WeightBlockedUnsplit sm90_weight_blocked_unsplit(const Sm90WeightBlockedPlan& plan, const Problem& p,
                                                     const core::DeviceInfo& device) {
  const Sm90WeightBlockedParams& k = plan.params;
  const Sm90WeightBlockedLayout layout = plan.layout();
  const Sm90WeightBlockedShape shape = plan.shape();
  const int steps = layout.row_bytes() / layout.parts / kWeightStepBytes;
  Sm90WeightBlockedUnsplit c;
  c.tensor = steps * layout.products * 2.0 * shape.row_blocks * shape.columns / 2;
  // Rows of 128 bytes that begin anywhere (shifts in tf32) take two lines.
  const double lines = layout.unit_planes == 1 && k.taps > 1 && k.shift % 32 != 0 ? 3 : 1;
  c.l2 = (2.0 * shape.row_blocks * k.x_box * lines + k.y_box) * layout.row_bytes() / kL2BytesPerCycle;
  const double unhidden = layout.parts > 1 ? kStageOfParts : layout.unit_planes == 1 ? kStageOfWords : kStage;
  c.stage = std::max(c.tensor / kTensorShare, c.l2) + unhidden;
  const double element = shape_of(plan.mode).element,
               written = layout.unit_planes == 1 ? 4 : 2 * layout.parts;
  const double x_all = double(p.x_elements()), y_all = double(p.y_elements());
  // In tf32 a block has four planes. If the stride is 8 or more, these are half of a sector of dy, and dy
  // takes twice as long, unless they are one load.
  const bool words = layout.unit_planes == 1;
  const double twice = words && p.stride >= 8 && !plan.pass.y.together ? 2 : 1;
  const double places = written * double(plan.positions) * double(p.groups);
  const double bytes = element * (x_all + twice * y_all) +
                       places * (double(k.cin_group) * k.x_planes + twice * double(k.columns));
  c.pass = plan.chunks * kLaunch + bytes / (words ? kWordPassBytes : kPassBytes);
  c.look = plan.config.scaled ? kLook + element * (x_all + y_all) / kLookBytes : 0;
  // What the pass wrote and L2 did not keep is read from memory.
  const double planes = double(plan.x_bytes + plan.y_bytes) * plan.chunks;
  c.dram = std::max(0.0, planes - 0.5 * double(device.l2_bytes)) / kDramBytes;
  const double stages = double(k.tiles) * plan.chunks * k.stages / std::max(1, device.sm_count) / kClock;
  c.least = kLaunch + std::max(stages * c.stage, c.dram) + plan.chunks * std::min(kEnd, kSplitEnd) + c.look +
            c.pass;
  return c;
}

Sm90WeightBlockedCost sm90_weight_blocked_cost(const Sm90WeightBlockedPlan& plan,
                                               const Sm90WeightBlockedUnsplit& unsplit,
                                               const core::DeviceInfo& device) {
  const Sm90WeightBlockedParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  const double sms = std::max(1, device.sm_count);
  const double turns = std::max(1.0, std::ceil(double(plan.blocks) / sms));
  const double stages = turns * plan.chunks * double(ceil_div(std::max(1, k.stages), k.splits)) / kClock;
  Sm90WeightBlockedCost c;
  c.tensor = stages * unsplit.tensor;
  c.l2 = stages * unsplit.l2;
  c.pass = unsplit.pass;
  c.look = unsplit.look;
  const double part = double(plan.part_bytes);
  c.sum = k.direct ? 0 : 1e-6 + part / (weight_sums_lines(k) ? 1.35e12 : 2.2e12);
  // A block's first stage waits for memory, and its sums leave after the last one.
  const double wide = shape.row_blocks * shape.columns;
  const double sectors = 128 * wide * sectors_of_element(k, shape_of(plan.mode).element);
  const double end = (k.direct ? kEnd + wide * kEndColumn + kEndSector * sectors / kClock : kSplitEnd) +
                     (plan.config.scaled ? kScaledEnd : 0);
  const double ends = turns * end + part / 3.4e12;
  c.total =
      kLaunch + std::max(stages * unsplit.stage, unsplit.dram) + plan.chunks * ends + c.look + c.pass + c.sum;
  return c;
}

}  // namespace tconv::cuda
