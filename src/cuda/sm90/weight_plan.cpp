#include "cuda/sm90/weight_plan.hpp"

#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/weight_layout.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using plan::Support;

// Fitted to 2,460 configurations of 334 problems, most of them drawn, in tf32 and bf16 (H200, in a graph):
// half of the times are within 9%, 90% within 21%, and the choice takes 1.02 times as long as the fastest
// measured.
constexpr double kClock = 1.7e9, kL2BytesPerCycle = 40, kTensorShare = 0.85;
constexpr double kLaunchSeconds = 2.1e-6, kBlockSeconds = 2e-6, kSumSeconds = 2.3e-6;
// Cycles of the warps that bring a stage: of a stage, a piece, a line of dy, sixteen bytes of it, and an
// element of x where tensor copies cannot bring it. Until what they bring is there, in one slot.
constexpr double kBringStage = 84, kBringPiece = 660, kBringLine = 290, kBringUnit = 69, kBringElement = 160;
constexpr double kArrive = 980;
// Cycles of a pass through shared memory, for the operand in registers and for that of wgmma; of 128 bytes
// on their way in; of an instruction.
constexpr double kLoadRows = 1.6, kReadColumns = 1.2, kStore = 1.33, kIssue = 1.07;
// Of a product of 16 bits in the widest tile, whose lanes have too few registers: 21 by the fit, which leaves
// long runs 15% short (n64 ci128 co128 l65536 k3: 1,337 us).
constexpr double kSpill = 40;
constexpr double kSumCycles = 31;       // of one of a thread's sums, at the end of a chain
constexpr double kSectorCycles = 0.38;  // for 32 bytes of dw or a part of them, of a block that stores dw
constexpr double kPartBytesPerSecond = 0.83e12, kDirectBytesPerSecond = 2e12;
constexpr double kBeside = 0.18;  // the units overlap, but not perfectly

double bring_cycles(const WeightParams& k, int units, int shift) {
  const double turns = double(ceil_div(int64_t{k.block_couts} << shift, kSm90WeightProducers));
  const double line = kBringLine + kBringUnit * double(ceil_div(units, int64_t{1} << shift));
  return kBringStage + k.stage_pieces * (kBringPiece + turns * line);
}

// How many threads copy a line of dy.
int line_shift(const WeightParams& k, int units) {
  int best = 5;
  for (int shift = 4; shift >= 0; --shift) {
    if (bring_cycles(k, units, shift) < bring_cycles(k, units, best)) best = shift;
  }
  return best;
}

int slots_of(const core::DeviceInfo& device, int64_t slot_bytes) {
  return static_cast<int>(
      std::min<int64_t>(kSm90WeightMaxSlots, (device.shared_per_block - kSm90WeightHead) / slot_bytes));
}

void set_layout(Sm90WeightPlan& plan, const Problem& p, const core::DeviceInfo& device,
                const Sm90WeightShape& shape, bool exact_pitch) {
  Sm90WeightParams& params = plan.params;
  WeightParams& k = params.k;
  const int element = shape_of(plan.mode).element, positions = plan.config.piece * plan.config.stage_pieces;
  set_weight_pieces(k, p, plan.config.piece, plan.config.stage_pieces);
  k.chain = std::max(1, kSm90WeightChain / (positions * element / kWeightStepBytes));
  k.line_shift = line_shift(k, k.piece_pitch * element / 16);
  k.x_pitch = 0;
  k.y_pitch = weight_y_pitch(k, element, shape.rows(), exact_pitch);
  params.x_bytes = shape.columns * positions * element;
  params.box_rows = std::min(shape.columns, k.cin_group);
  params.tensor = weight_by_tensor_copies(p, k.piece);
  const int64_t bytes = params.x_bytes + int64_t{k.block_couts} * k.y_pitch;
  const int64_t room = device.shared_per_block - kSm90WeightHead;
  if (bytes >= 1 << 24 || round_up<int64_t>(bytes, 1024) * 2 > room) return;
  k.slot_bytes = static_cast<int32_t>(round_up<int64_t>(bytes, 1024));
  params.slots = slots_of(device, k.slot_bytes);
  plan.shared_bytes = static_cast<std::size_t>(kSm90WeightHead) +
                      static_cast<std::size_t>(params.slots) * static_cast<std::size_t>(k.slot_bytes);
  plan.blocks = 1;
}

// Cycles of a stage in one block, by unit.
struct StageCost {
  double tensor, shared, l2, bring, stage;
};

// Cycles of 32 bytes of positions (kWeightStepBytes) of a block, without copies.
struct StepCost {
  double tensor, shared, issue, spill;
};

StepCost step_cost(Arithmetic mode, const Sm90WeightShape& shape) {
  const int element = shape_of(mode).element;
  const double products = shape.row_blocks * kSm90WeightWarpgroups;
  // A warp's loads of one operand, and wgmma's of the other.
  const double loads = element == 2 ? 8 : 4;
  const bool spills = element == 2 && shape.row_blocks == 3 && shape.columns == 128;
  return {products * shape.columns / 2,
          products * (4 * loads * kLoadRows + shape.columns / 4.0 * kReadColumns),
          (products * (2 * loads + 4) + 30) * kIssue, spills ? products * kSpill : 0};  // of a scheduler
}

double multiply_cycles(double tensor, double shared, double issue, double spill) {
  const double of_tensor = tensor / kTensorShare, most = std::max({of_tensor, shared, issue});
  return most + kBeside * (of_tensor + shared + issue - most) + spill;
}

StageCost stage_cost(const Sm90WeightPlan& plan, const Sm90WeightShape& shape) {
  const Sm90WeightParams& params = plan.params;
  const WeightParams& k = params.k;
  const int element = shape_of(plan.mode).element, positions = k.piece * k.stage_pieces;
  const double steps = positions * element / double{kWeightStepBytes};
  const StepCost step = step_cost(plan.mode, shape);
  const double y_bytes = double(k.block_couts) * k.stage_pieces * k.piece_pitch * element;
  const double x_bytes = double(params.box_rows) * positions * element;
  const double tensor = steps * step.tensor,
               shared = steps * step.shared + (x_bytes + y_bytes) / 128 * kStore;
  double bring = bring_cycles(k, k.piece_pitch * element / 16, k.line_shift);
  if (!params.tensor) {
    bring += kBringElement *
             static_cast<double>(ceil_div(int64_t{params.box_rows} * positions, kSm90WeightProducers));
  }
  const double l2 = (x_bytes + y_bytes) / kL2BytesPerCycle;
  const double multiply = multiply_cycles(tensor, shared, steps * step.issue, steps * step.spill);
  // Third powers: what overlaps takes as long as the longest, and more where two take about as long.
  const double arrive = std::max(bring, l2), wait = (arrive + kArrive) / params.slots;
  const double stage =
      std::cbrt(multiply * multiply * multiply + arrive * arrive * arrive + wait * wait * wait) +
      kBeside * std::min(multiply, arrive);
  return {tensor, shared, l2, bring, stage};
}

// cost.dram is there already.
void set_cost(Sm90WeightPlan& plan, const core::DeviceInfo& device, const Sm90WeightShape& shape,
              const StageCost& stage) {
  const WeightParams& k = plan.params.k;
  const int64_t sms = std::max(1, device.sm_count);
  const double turns = double(std::max<int64_t>(1, ceil_div(plan.blocks, sms)));
  const double per_split = double(ceil_div(k.stages, k.splits)) * turns / kClock;
  Sm90WeightCost& c = plan.cost;
  c.tensor = per_split * stage.tensor;
  c.shared = per_split * stage.shared;
  c.l2 = per_split * stage.l2;
  c.bring = per_split * stage.bring;
  const int element = shape_of(plan.mode).element;
  const double dw = double(plan.dw_elements) * element, part = dw * (element == 2 ? 2 : 1);
  const double sectors = turns * shape.rows() * shape.columns / weight_run(k, element);
  c.sum = k.direct ? dw / kDirectBytesPerSecond + sectors * kSectorCycles / kClock
                   : kSumSeconds + k.splits * part / kPartBytesPerSecond;
  const double chains = turns * std::ceil(double(ceil_div(std::max(1, k.stages), k.splits)) / k.chain);
  const double ends =
      turns * kBlockSeconds + chains * shape.row_blocks * shape.columns / 2 * kSumCycles / kClock;
  c.total = kLaunchSeconds + ends + overlapped(per_split * stage.stage, c.dram) + c.sum;
}

void set_splits(Sm90WeightPlan& plan, const core::DeviceInfo& device, const StageCost& stage) {
  const Sm90WeightShape& shape = kSm90WeightShapeTable[plan.config.shape];
  WeightParams& k = plan.params.k;
  set_weight_splits(k, plan.config.splits);
  plan.blocks = int64_t{k.tiles} * k.splits;
  plan.part_bytes = k.direct ? 0 : plan.blocks * shape.rows() * shape.columns * 4;
  set_cost(plan, device, shape, stage);
}

// What all plans of a problem have in common.
Sm90WeightPlan begun(const Problem& p, const core::DeviceInfo& device) {
  Sm90WeightPlan plan{arithmetic_of(p), {}, {}, {}};
  plan.dw_elements = p.weight_elements();
  set_weight_sizes(plan.params.k, p);
  plan.cost.dram = problem_work(p).bytes / (device.copy_gbps * 1e9);
  return plan;
}

Sm90WeightPlan without_splits(const Sm90WeightPlan& sized, const Problem& p, const core::DeviceInfo& device,
                              const Sm90WeightConfig& config, bool exact_pitch) {
  Sm90WeightPlan plan = sized;
  plan.config = config;
  const Sm90WeightShape& shape = kSm90WeightShapeTable[config.shape];
  WeightParams& k = plan.params.k;
  set_weight_blocks(k, shape.columns, shape.rows(), config.block_taps, config.block_couts, p.groups);
  k.piece = config.piece;
  if (weight_reach(k) * config.stage_pieces >= 1 << 17) return plan;
  plan.config.block_couts = k.block_couts;
  plan.config.block_taps = k.block_taps;
  set_layout(plan, p, device, shape, exact_pitch);
  return plan;
}

// A bound of the predicted times of a plan with any splits.
double least_seconds(const Sm90WeightPlan& plan, const core::DeviceInfo& device, const StageCost& stage) {
  const WeightParams& k = plan.params.k;
  const double stages = double(k.tiles) * k.stages * stage.stage / kClock / std::max(1, device.sm_count);
  return kLaunchSeconds + kBlockSeconds + overlapped(stages, plan.cost.dram);
}

void try_splits(Sm90WeightPlan& best, const Sm90WeightPlan& plan, const core::DeviceInfo& device) {
  const StageCost stage = stage_cost(plan, kSm90WeightShapeTable[plan.config.shape]);
  if (best.blocks != 0 && least_seconds(plan, device, stage) >= best.cost.total) return;
  try_weight_splits(best, plan, plan.params.k.tiles, device,
                    [&](Sm90WeightPlan& split) { set_splits(split, device, stage); });
}

}  // namespace

Support sm90_weight_supports(const Problem& p) {
  if (Support takes = weight_supports(p); !takes.ok) return takes;
  if (p.dtype == core::DType::f64) return Support::no("dtype f64: wgmma has no float64");
  if (arithmetic_of(p) == Arithmetic::ieee)
    return Support::no("ieee float32: this kernel does not split operands");
  return Support::yes();
}

bool weight_by_tensor_copies(const Problem& p, int piece) {
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  const auto x = p.x_steps();
  constexpr int64_t kFar = int64_t{1} << 39;  // steps of a map have 40 bits
  return (x[2] == 1 || p.l == 1) && piece * element % kSm90WeightBlock == 0 &&
         (p.cin == 1 || (x[1] * element % 16 == 0 && x[1] > 0 && x[1] * element < kFar)) &&
         (p.n == 1 || (x[0] * element % 16 == 0 && x[0] > 0 && x[0] * element < kFar));
}

Sm90WeightPlan sm90_weight_plan_of(const Problem& p, const core::DeviceInfo& device,
                                   const Sm90WeightConfig& config) {
  Sm90WeightPlan plan = without_splits(begun(p, device), p, device, config, true);
  if (plan.blocks != 0) set_splits(plan, device, stage_cost(plan, kSm90WeightShapeTable[config.shape]));
  return plan;
}

namespace {

// A bound of the predicted times of plans with so many tiles.
double least_seconds(const Problem& p, const core::DeviceInfo& device, int shape, int64_t tiles) {
  const Arithmetic mode = arithmetic_of(p);
  const StepCost step = step_cost(mode, kSm90WeightShapeTable[shape]);
  const double positions = double(p.n) * double(p.l), sms = std::max(1, device.sm_count);
  const double steps = double(tiles) * positions * shape_of(mode).element / kWeightStepBytes / sms;
  const double products = steps * multiply_cycles(step.tensor, step.shared, step.issue, step.spill) / kClock;
  return kLaunchSeconds + kBlockSeconds +
         overlapped(products, problem_work(p).bytes / (device.copy_gbps * 1e9));
}

std::vector<WeightTileTaps> by_bound(const Problem& p, const core::DeviceInfo& device,
                                     const Sm90WeightPlan& sized) {
  return weight_tiles_by_bound(kSm90WeightShapes, [&](int shape) {
    const Sm90WeightShape& s = kSm90WeightShapeTable[shape];
    return weight_taps(p, sized.params.k, s.columns, s.rows(),
                       [&](int64_t tiles) { return least_seconds(p, device, shape, tiles); });
  });
}

Sm90WeightPlan cheapest(const Problem& p, const core::DeviceInfo& device) {
  const Arithmetic mode = arithmetic_of(p);
  const int block = kSm90WeightBlock / shape_of(mode).element;
  Sm90WeightPlan best{mode, {}, {}, {}};
  const Sm90WeightPlan sized = begun(p, device);
  for (const auto& [least, shape, ways] : by_bound(p, device, sized)) {
    if (best.blocks != 0 && least >= best.cost.total) break;
    const int64_t rows = kSm90WeightShapeTable[shape].rows();
    for (int positions = block; positions <= 128; positions *= 2) {
      for (int piece = kWeightStepBytes / shape_of(mode).element; piece <= positions; piece *= 2) {
        if (piece > block / 2 && piece / 2 >= p.l) break;
        if (piece < positions && p.l > piece) continue;
        for (int way = 0; way < ways.count; ++way) {
          if (best.blocks != 0 && ways.least[way] >= best.cost.total) continue;
          int couts = static_cast<int>(std::min(p.cout_per_group(), rows));
          Sm90WeightPlan plan{};
          for (; couts >= 1; couts /= 2) {  // fewer if their rows are long
            plan = without_splits(sized, p, device,
                                  {shape, piece, positions / piece, ways.taps[way], couts, 1}, false);
            if (plan.blocks != 0) break;
          }
          if (plan.blocks != 0) try_splits(best, plan, device);
        }
      }
    }
  }
  return best;
}

// Whether rows of dy that lie closer together might make room for another slot.
bool depends_on_pitch(const Sm90WeightPlan& plan, const core::DeviceInfo& device) {
  const WeightParams& k = plan.params.k;
  const int64_t less = k.slot_bytes - int64_t{kWeightPitchSlack} * k.block_couts;
  return slots_of(device, k.slot_bytes) != slots_of(device, std::max<int64_t>(1024, less / 1024 * 1024));
}

}  // namespace

const Sm90WeightPlan& sm90_weight_search(const Problem& p, const core::DeviceInfo& device) {
  static thread_local Memo<Sm90WeightPlan> memo;
  return memo.get(p, device, false, [&] {
    const Sm90WeightPlan best = cheapest(p, device);
    const bool exact = best.blocks != 0 && depends_on_pitch(best, device);
    return exact ? sm90_weight_plan_of(p, device, best.config) : best;
  });
}

double sm90_weight_least_seconds(const Problem& p, const core::DeviceInfo& device) {
  return by_bound(p, device, begun(p, device)).front().least;
}

Sm90WeightPlan sm90_weight_plan(const Problem& p, const core::DeviceInfo& device) {
  static thread_local Memo<Sm90WeightPlan> memo;
  return memo.get(p, device, false, [&] {
    const Sm90WeightPlan& found = sm90_weight_search(p, device);
    return found.blocks == 0 ? found : sm90_weight_plan_of(p, device, found.config);
  });
}

std::string describe(const Sm90WeightPlan& plan) {
  using std::to_string;
  const Sm90WeightShape& shape = kSm90WeightShapeTable[plan.config.shape];
  const WeightParams& k = plan.params.k;
  std::string out = std::string(name_of(plan.mode)) + ", tile (" + to_string(k.block_couts) + " couts, " +
                    to_string(k.block_phases) + " phases, " + to_string(k.block_taps) + " taps) of " +
                    to_string(shape.rows()) + " x " + to_string(shape.columns) + " ci, " +
                    to_string(k.tiles) + " tiles, " + to_string(plan.params.slots) + " slots of " +
                    to_string(k.stage_pieces) + " x " + to_string(k.piece) + " positions";
  if (!k.direct) out += ", positions split " + to_string(k.splits) + " ways and summed in order";
  return out;
}

}  // namespace tconv::cuda
