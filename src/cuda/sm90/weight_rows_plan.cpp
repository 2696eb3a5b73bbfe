#include "cuda/sm90/weight_rows_plan.hpp"

#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/weight_units_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using plan::Support;

constexpr int kEight = 8;           // channels of a unit
constexpr int kMostElements = 252;  // of a row of a tensor copy, an odd number of 16 bytes
constexpr int kMostRows = 256;      // of a tensor copy

// Rows that have `columns` positions of a plane, of at most `units` units, in boxes. last: elements that are
// read from the last position on.
bool set_rows(Sm90WeightRowsRaw& raw, int columns, int boxes, int units, int last) {
  constexpr int kAhead = 3;  // a copy begins on 16 bytes
  raw.columns = columns;
  raw.boxes = boxes, raw.box_columns = columns / boxes;
  const int least = raw.stride * (raw.box_columns - 1) + last + kAhead;
  raw.width = ((least + 3) / 4 | 1) * 4;
  const int there = std::min(units, raw.blocks), classes = 1 << raw.log_classes;
  // A tile's units may begin with any class.
  raw.box_rows = kEight * static_cast<int>(ceil_div(there + (there < raw.blocks ? classes - 1 : 0), classes));
  raw.class_bytes = raw.box_rows * raw.width * 4;
  raw.box_bytes = raw.class_bytes << raw.log_classes;
  return raw.width <= kMostElements && raw.box_rows <= kMostRows;
}

// Units of dy that a tile has, at most.
int tile_units(const Sm90WeightRowsParams& k, const Sm90WeightBlockedShape& shape) {
  return (shape.columns / kEight - 1) / k.y_planes + (k.y_planes > 1 ? 2 : 1);
}

bool set_operands(Sm90WeightRowsParams& k, const Sm90WeightBlockedShape& shape) {
  const int tile_blocks = shape.rows() / 64;
  const int64_t span = int64_t{(k.x_blocks == 1 ? std::min(k.taps, tile_blocks) : k.taps) - 1} * k.shift;
  const int64_t x_columns = k.stage_positions + span + (k.x_planes - 1) * k.step;
  if (x_columns > kMostElements) return false;
  k.x_raw.stride = k.x_raw.phases = 1, k.x_raw.padding = 0;
  k.y_raw.stride = static_cast<int>(k.stride), k.y_raw.phases = k.y_planes;
  k.y_raw.padding = static_cast<int>(k.padding);
  if (!set_rows(k.x_raw, static_cast<int>(x_columns), 1, k.x_blocks * kEight, 1)) return false;
  const int last = k.sums_y ? k.y_raw.stride : k.y_planes;
  for (int boxes = 1; k.stage_positions / boxes >= kEight; boxes *= 2) {
    if (set_rows(k.y_raw, k.stage_positions, boxes, tile_units(k, shape), last)) return true;
  }
  return false;
}

bool set_shared(Sm90WeightRowsPlan& plan, const core::DeviceInfo& device) {
  Sm90WeightRowsParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  if (!set_operands(k, shape)) return false;
  const bool parts = plan.mode == Arithmetic::ieee;
  k.y_at = k.x_raw.box_bytes;
  k.part_bytes = shape.columns * k.stage_positions * (parts ? 2 : 4);
  k.slot_bytes = k.y_at + k.part_bytes * (parts ? 3 : 1);
  k.place_bytes = k.y_raw.box_bytes * k.y_raw.boxes;
  const int bias = k.sums_y ? weight_bias_bytes(shape.columns, weight_movers(plan.mode)) : 0;
  const int64_t room = device.shared_per_block - kSm90WeightRowsHead - bias;
  // Raw places are free sooner than slots.
  k.slots =
      static_cast<int>(std::min<int64_t>(room / (k.slot_bytes + k.place_bytes), kSm90WeightRowsMostPlaces));
  if (k.slots < 2) return false;
  const int64_t left = room - int64_t{k.slots} * k.slot_bytes;
  k.places = static_cast<int>(std::min<int64_t>(left / k.place_bytes, kSm90WeightRowsMostPlaces));
  const int64_t used = int64_t{k.slots} * k.slot_bytes + int64_t{k.places} * k.place_bytes;
  const int64_t staged = int64_t{shape.rows()} * (shape.columns + 8) * 4;
  k.bias_at = static_cast<int>(std::max(used, staged));  // warps may still read it while sums are staged
  plan.shared_bytes = static_cast<std::size_t>(kSm90WeightRowsHead + k.bias_at + bias);
  return static_cast<int64_t>(plan.shared_bytes) <= device.shared_per_block;
}

// Fitted to 2,311 configurations of 334 problems, most of them drawn, in tf32 and ieee (H200, in a graph):
// half of the times are within 8%, 90% within 23%, and the choice takes 1.03 times as long as the fastest
// measured.
constexpr double kClock = 1.6e9, kL2BytesPerCycle = 35, kLaunch = 2.5e-6, kSum = 4.1e-6;
// Of what tensor cores and shared memory can do, in one part and in three; cycles that a warp takes to move 8
// planes of 32 positions, in three parts those in which others wait for it.
constexpr double kTensorShare = 0.87, kPartsTensorShare = 0.67, kSharedCycles = 0.99,
                 kPartsSharedCycles = 1.57;
constexpr double kMoves = 150, kPartsMoves = 106;
// Cycles that the sums of dy add to 8 planes of 32 positions, and those of an output without a phase:
// counted, not measured.
constexpr double kSums = 80, kGap = 60;
constexpr double kCopy = 185, kStage = 450, kPartsStage = 380;
constexpr double kArrive = 710;   // until what is brought and moved is there, in one slot
constexpr double kBeside = 0.08;  // the units overlap, but not perfectly
constexpr double kBlock = 3.5e-6, kBlockSums = 0.029e-6, kPartBytesPerSecond = 5e12;
constexpr double kDirectBytesPerSecond = 6.6e12;
constexpr double kSectorCycles = 0.4;  // for 32 bytes of dw or a part of them, of a block that stores dw

// What the costs of a plan have in common, however its positions are split.
void set_stage_cost(Sm90WeightRowsPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  const Sm90WeightRowsParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  const bool parts = plan.mode == Arithmetic::ieee;
  Sm90WeightRowsCost& c = plan.cost;
  // wgmma of one operand part; each reads the columns in shared memory, lanes read the rows once for all
  // parts.
  const double operands = double(k.stage_positions) / (parts ? 16 : 8) * 2 * shape.row_blocks;
  const double products = operands * (parts ? 6 : 1);
  c.tensor = products * shape.columns / 2;
  const double x_bytes = k.x_raw.box_bytes, y_bytes = double(k.y_raw.box_bytes) * k.y_raw.boxes;
  const double plane_bytes = double(k.part_bytes) * (parts ? 3 : 1);
  // Lanes that are 4 positions apart read the same banks where the stride is even.
  const double conflicts = k.stride % 4 == 0 ? 4 : k.stride % 2 == 0 ? 2 : 1;
  const double moved = double(shape.columns) * k.stage_positions * 4;
  c.shared = operands * (parts ? 32 : 16) + products * shape.columns / 4 +
             (x_bytes + y_bytes + plane_bytes + moved * conflicts) / 128;
  const double lines =
      double(ceil_div(int64_t{shape.columns} / kEight * (k.stage_positions / 32), weight_movers(plan.mode)));
  const double gaps = k.sums_y ? double(k.stride - k.y_planes) / k.y_planes : 0;
  c.moves = lines * ((parts ? kPartsMoves : kMoves) + (k.sums_y ? kSums : 0) + gaps * kGap);
  c.memory = x_bytes + y_bytes;
  c.copies = (1 << k.x_raw.log_classes) + (k.y_raw.boxes << k.y_raw.log_classes);
  const double tensor = c.tensor / (parts ? kPartsTensorShare : kTensorShare);
  const double shared = c.shared * (parts ? kPartsSharedCycles : kSharedCycles);
  const double bring = std::max(c.memory / kL2BytesPerCycle, c.copies * kCopy);
  const double most = std::max({tensor, shared, c.moves, bring});
  const double work =
      most + kBeside * (tensor + shared + c.moves + bring - most) + (parts ? kPartsStage : kStage);
  const double wait = (c.moves + bring + kArrive) / k.slots;  // beside work, as in cuda.sm90.weight
  c.stage = std::cbrt(work * work * work + wait * wait * wait);
  c.dram = problem_work(p).bytes / (device.copy_gbps * 1e9);
}

// A bound of the time of a plan with the cost of a stage, whatever its splits.
double least_seconds(const Sm90WeightRowsPlan& plan, const core::DeviceInfo& device) {
  const Sm90WeightRowsParams& k = plan.params;
  const double blocks = double(k.tiles) / std::max(1, device.sm_count);
  return kLaunch + overlapped(blocks * k.stages * plan.cost.stage / kClock, plan.cost.dram) + kBlock;
}

void set_cost(Sm90WeightRowsPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  const Sm90WeightRowsParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  Sm90WeightRowsCost& c = plan.cost;
  const double sms = std::max(1, device.sm_count);
  const double turns = std::ceil(double(plan.blocks) / sms);
  const double main = turns * double(ceil_div(std::max(1, k.stages), k.splits)) * c.stage / kClock;
  const double end = kBlock + shape.row_blocks * shape.columns * kBlockSums;
  const double run = std::min(k.y_planes, 32 / 4);  // of dw's neighbours in a row
  const double sectors = turns * shape.rows() * shape.columns / run;
  const double sum =
      k.direct ? double(p.weight_elements()) * 4 / kDirectBytesPerSecond + sectors * kSectorCycles / kClock
               : kSum;
  c.total = kLaunch + overlapped(main, c.dram) + turns * end + sum +
            double(plan.part_bytes) / kPartBytesPerSecond + (k.sums_y ? kLaunch : 0);
}

void set_splits(Sm90WeightRowsPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  set_unit_splits(plan);
  plan.params.bias_each = plan.params.splits * plan.params.y_planes;
  set_cost(plan, p, device);
}

Sm90WeightRowsPlan without_splits(const Problem& p, const core::DeviceInfo& device,
                                  const Sm90WeightRowsConfig& config) {
  Sm90WeightRowsPlan plan{arithmetic_of(p), config, {}, {}};
  Sm90WeightRowsParams& k = plan.params;
  if (weight_rows_has(plan.mode, config.shape) && set_unit_sizes(k, p, config.positions, 8, 0) &&
      set_unit_tiles(k, k.x_raw, k.y_raw, p, plan.shape(), config.shifts_in_rows) &&
      set_shared(plan, device)) {
    plan.blocks = 1;
    set_stage_cost(plan, p, device);
  }
  return plan;
}

}  // namespace

Support sm90_weight_rows_supports(const Problem& p) {
  if (size_of(p.dtype) != 4) return Support::no("dtype: only float32 is multiplied along its rows");
  return weight_units_support(p);
}

Sm90WeightRowsPlan sm90_weight_rows_plan_of(const Problem& p, const core::DeviceInfo& device,
                                            const Sm90WeightRowsConfig& config) {
  Sm90WeightRowsPlan plan{arithmetic_of(p), config, {}, {}};
  if (sm90_weight_rows_supports(p).ok) plan = without_splits(p, device, config);
  if (plan.blocks != 0) set_splits(plan, p, device);
  return plan;
}

namespace {

Sm90WeightRowsPlan cheapest(const Problem& p, const core::DeviceInfo& device) {
  Sm90WeightRowsPlan best{arithmetic_of(p), {}, {}, {}};
  for (int shape = 0; shape < static_cast<int>(std::size(kSm90WeightRowsShapeTable)); ++shape) {
    for (const int positions : kSm90WeightRowsPositions) {
      for (const bool shifts_in_rows : {false, true}) {
        const Sm90WeightRowsPlan plan = without_splits(p, device, {shape, positions, shifts_in_rows, 1});
        if (plan.blocks == 0) continue;
        if (best.blocks != 0 && least_seconds(plan, device) >= best.cost.total) continue;
        try_weight_splits(best, plan, plan.params.tiles, device,
                          [&](Sm90WeightRowsPlan& split) { set_splits(split, p, device); });
      }
    }
  }
  return best;
}

}  // namespace

Sm90WeightRowsPlan sm90_weight_rows_plan(const Problem& p, const core::DeviceInfo& device) {
  static thread_local Memo<Sm90WeightRowsPlan> memo;
  return memo.get(p, device, false, [&] { return cheapest(p, device); });
}

}  // namespace tconv::cuda
