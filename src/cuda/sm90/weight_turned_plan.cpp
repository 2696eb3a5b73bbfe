#include "cuda/sm90/weight_turned_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/turned_pitch.hpp"
#include "cuda/sm90/weight_units_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using plan::Support;

constexpr int kEight = 8;  // channels of a piece

int word_bytes(Arithmetic mode) {
  return mode == Arithmetic::ieee ? 4 : 2;
}

// Elements of a piece's rows, at least `least`; 0: too many for a tensor copy. The 8 rows that ldmatrix reads
// at once must meet different banks, and so must 4 rows of 8 words.
int row_width(int least, Arithmetic mode) {
  if (mode != Arithmetic::ieee) {
    const int width = ((least + 7) / 8 | 1) * 8;
    return width <= 248 ? width : 0;
  }
  const int width = round_up(std::max(least, 8) - 8, 32) + 8;
  return width <= 232 ? width : 0;
}

// Pieces of rows that have `columns` positions of a plane. Summed pieces have whole runs of 16 elements.
bool set_pieces(Sm90WeightRaw& raw, Arithmetic mode, int64_t columns, int stride, int phases, int64_t padding,
                bool summed) {
  const int ahead = 16 / word_bytes(mode) - 1, most = mode == Arithmetic::ieee ? 232 : 248;
  const int each = summed ? 16 / std::gcd(stride, 16) : 1;
  const int most_columns =
      std::min((most - ahead - phases) / stride + 1, summed ? most / stride : most) / each * each;
  if (columns > 1024 || most_columns < 1) return false;
  raw.stride = stride, raw.phases = phases, raw.padding = static_cast<int>(padding);
  raw.columns = static_cast<int>(columns);
  raw.boxes = static_cast<int>(ceil_div(columns, most_columns));
  raw.box_columns = round_up(static_cast<int>(ceil_div(columns, raw.boxes)), each);
  const int least = stride * (raw.box_columns - 1) + phases + ahead;
  raw.width = row_width(summed ? std::max(least, stride * raw.box_columns) : least, mode);
  raw.by_stride = Divisor::of(static_cast<uint32_t>(stride));
  // Rows of a class that a tensor copy brings at once.
  constexpr int kPieceBytes = 10 << 10, kMostUnits = 4;
  const int unit_bytes = raw.width * kEight * word_bytes(mode);
  raw.piece_units =
      unit_bytes == 0
          ? 1
          : std::clamp(std::min(kPieceBytes / unit_bytes, raw.blocks >> raw.log_classes), 1, kMostUnits);
  return raw.width > 0;
}

// At most, of a stage.
int pieces_of(const Sm90WeightRaw& raw, int units) {
  const int there = std::min(units, raw.blocks);
  return weight_unit_runs(raw, there) * std::min(there, 1 << raw.log_classes) * raw.boxes;
}
int stage_pieces(const Sm90WeightTurnedParams& k, const Sm90WeightBlockedShape& shape) {
  const int y_units = (shape.columns / kEight - 1) / k.y_planes + (k.y_planes > 1 ? 2 : 1);
  return pieces_of(k.x_raw, k.x_blocks * kEight) + pieces_of(k.y_raw, y_units);
}

bool set_shared(Sm90WeightTurnedPlan& plan, const core::DeviceInfo& device) {
  constexpr int kAhead = 40 << 10;  // bytes of pieces that hide the latency of memory
  Sm90WeightTurnedParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  const int tile_blocks = shape.rows() / 64;
  const int64_t span = int64_t{(k.x_blocks == 1 ? std::min(k.taps, tile_blocks) : k.taps) - 1} * k.shift;
  const int64_t x_columns = k.stage_positions + span + (k.x_planes - 1) * k.step;
  if (!set_pieces(k.x_raw, plan.mode, x_columns, 1, 1, 0, false) ||
      !set_pieces(k.y_raw, plan.mode, k.stage_positions, static_cast<int>(k.stride), k.y_planes, k.padding,
                  k.sums_y)) {
    return false;
  }
  if (stage_pieces(k, shape) > kSm90WeightStagePieces) return false;
  k.x_raw.plane_columns = k.x_raw.pitch = static_cast<int>(k.stage_positions + span);
  k.y_raw.plane_columns = k.y_raw.columns;
  k.y_raw.pitch = turned_pitch(k.y_raw.columns, k.y_raw.stride);
  k.y_at = k.x_blocks * kEight * k.x_raw.pitch * 16;
  k.part_bytes = k.y_at + shape.columns / kEight * k.y_raw.pitch * 16;
  k.slot_bytes = round_up(k.part_bytes * (plan.mode == Arithmetic::ieee ? 3 : 1), 128);
  k.piece_bytes =
      round_up(std::max(k.x_raw.width * k.x_raw.piece_units, k.y_raw.width * k.y_raw.piece_units) * kEight *
                   word_bytes(plan.mode),
               128);
  const int turners = weight_turners(plan.mode, shape), nowhere = 16 * 32 * turners;
  const int bias = k.sums_y ? weight_bias_bytes(shape.columns, turners) : 0;
  const int64_t room = device.shared_per_block - kSm90WeightTurnedHead - nowhere - bias;
  for (k.slots = 3; k.slots >= 2; --k.slots) {
    const int64_t left = room - int64_t{k.slots} * k.slot_bytes;
    const int64_t most = left / k.piece_bytes;
    k.pieces = static_cast<int>(std::clamp<int64_t>(most, 0, kSm90WeightTurnedMaxPieces)) / turners * turners;
    if (k.pieces * k.piece_bytes >= (k.slots > 2 ? 2 * kAhead : kAhead)) break;
  }
  if (k.slots < 2) return false;
  const int64_t used = int64_t{k.slots} * k.slot_bytes + int64_t{k.pieces} * k.piece_bytes;
  const int64_t staged = int64_t{shape.rows()} * (shape.columns + 8) * 4;
  k.bias_at = static_cast<int>(std::max(used + nowhere, staged));  // still read while sums are staged
  plan.shared_bytes = static_cast<std::size_t>(kSm90WeightTurnedHead + k.bias_at + bias);
  return static_cast<int64_t>(plan.shared_bytes) <= device.shared_per_block;
}

// In units of one H200, a second or a cycle.
constexpr double kClock = 1.6e9, kL2BytesPerCycle = 40, kDramBytes = 4.2e12, kLaunch = 2.5e-6;
// Of what tensor cores and shared memory can do; cycles that a warp takes to turn 512 bytes (1024, in three
// parts) and for each piece, that a copy takes, and a stage; seconds of a block's start and end. Fitted to 91
// weight gradients in bf16, drawn ones and convolutions of vocoders (H100, with its 2.85 TB/s), within 20%;
// the share of shared memory and the lines in three parts were then set by 8 problems in ieee.
constexpr double kTensorShare = 0.8, kSharedShare = 0.7, kLine = 130, kPartsLine = 220, kPiece = 220;
// Cycles that the sums add to 512 bytes of dy: counted, not measured.
constexpr double kSums = 50;
constexpr double kCopy = 285, kStage = 130, kBlock = 1.4e-6, kBlockSums = 0.058e-6, kSumBytes = 4e12;

void set_cost(Sm90WeightTurnedPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  const Sm90WeightTurnedParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  const bool parts = plan.mode == Arithmetic::ieee;
  Sm90WeightTurnedCost& c = plan.cost;
  const double products = k.stage_positions / 16 * (parts ? 6.0 : 1.0) * 2 * shape.row_blocks;
  // 64 rows and the columns leave shared memory for each product.
  const double product_bytes = (64 + shape.columns) * 32.0;
  c.tensor = products * std::max(shape.columns / 2.0, product_bytes / 128);
  const int y_units =
      shape.columns / kEight / k.y_planes + (k.y_planes > 1 && k.in_tiles.columns > 1 ? 1 : 0);
  const double x_pieces = pieces_of(k.x_raw, k.x_blocks * kEight), y_pieces = pieces_of(k.y_raw, y_units);
  const double unit_bytes = kEight * word_bytes(plan.mode);
  const double x_bytes =
                   std::min(k.x_blocks * kEight, k.x_raw.blocks) * k.x_raw.boxes * k.x_raw.width * unit_bytes,
               y_bytes = std::min(y_units, k.y_raw.blocks) * k.y_raw.boxes * k.y_raw.width * unit_bytes;
  const double turned = (x_bytes * k.x_planes + y_bytes) * (parts ? 1.5 : 1.0);
  c.shared = (products * product_bytes + 2 * (x_bytes + y_bytes) + turned) / 128;
  c.memory = x_bytes + y_bytes;
  c.copies = x_pieces + y_pieces;
  c.lines = (x_bytes * k.x_planes + y_bytes) / (unit_bytes * 32) / weight_turners(plan.mode, shape);
  if (k.sums_y) c.sums = y_bytes / (unit_bytes * 32) / weight_turners(plan.mode, shape);
  c.pieces = (x_pieces * k.x_planes + y_pieces) / weight_turners(plan.mode, shape);
  const double stage =
      std::max({c.tensor / kTensorShare, c.shared / kSharedShare, c.memory / kL2BytesPerCycle,
                c.lines * (parts ? kPartsLine : kLine) + c.sums * kSums + c.pieces * kPiece,
                c.copies * kCopy}) +
      kStage;
  const double sms = std::max(1, device.sm_count);
  const double turns = std::ceil(double(plan.blocks) / sms);
  const double main = turns * double(ceil_div(std::max(1, k.stages), k.splits)) * stage / kClock;
  const double dram = problem_work(p).bytes / kDramBytes;
  const double wide = shape.row_blocks * shape.columns, part = double(plan.part_bytes);
  const double end = kBlock + wide * kBlockSums + part / 2.5e12;
  c.total = kLaunch + std::max(main, dram) + turns * end + (k.direct ? 0 : kLaunch + part / kSumBytes) +
            (k.sums_y ? kLaunch : 0);
}

void set_splits(Sm90WeightTurnedPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  set_unit_splits(plan);
  plan.params.bias_each = plan.params.splits;
  set_cost(plan, p, device);
}

Sm90WeightTurnedPlan without_splits(const Problem& p, const core::DeviceInfo& device,
                                    const Sm90WeightTurnedConfig& config) {
  Sm90WeightTurnedPlan plan{arithmetic_of(p), config, {}, {}};
  Sm90WeightTurnedParams& k = plan.params;
  if (weight_turned_has(plan.mode, config.shape) &&
      set_unit_sizes(k, p, weight_turned_positions(plan.mode), 16, 16 / word_bytes(plan.mode) - 1) &&
      set_unit_tiles(k, k.x_raw, k.y_raw, p, plan.shape(), config.shifts_in_rows) &&
      set_shared(plan, device)) {
    plan.blocks = 1;
  }
  return plan;
}

}  // namespace

Support sm90_weight_turned_supports(const Problem& p) {
  if (arithmetic_of(p) == Arithmetic::tf32) {
    return Support::no("tf32: its operands cannot be shifted in shared memory");
  }
  return weight_units_support(p);
}

Sm90WeightTurnedPlan sm90_weight_turned_plan_of(const Problem& p, const core::DeviceInfo& device,
                                                const Sm90WeightTurnedConfig& config) {
  Sm90WeightTurnedPlan plan{arithmetic_of(p), config, {}, {}};
  if (sm90_weight_turned_supports(p).ok) plan = without_splits(p, device, config);
  if (plan.blocks != 0) set_splits(plan, p, device);
  return plan;
}

namespace {

Sm90WeightTurnedPlan cheapest(const Problem& p, const core::DeviceInfo& device) {
  Sm90WeightTurnedPlan best{arithmetic_of(p), {}, {}, {}};
  for (int shape = 0; shape < static_cast<int>(std::size(kSm90WeightBlockedShapeTable)); ++shape) {
    for (const bool shifts_in_rows : {false, true}) {
      const Sm90WeightTurnedPlan plan = without_splits(p, device, {shape, shifts_in_rows, 1});
      if (plan.blocks == 0) continue;
      try_weight_splits(best, plan, plan.params.tiles, device,
                        [&](Sm90WeightTurnedPlan& split) { set_splits(split, p, device); });
    }
  }
  return best;
}

}  // namespace

Sm90WeightTurnedPlan sm90_weight_turned_plan(const Problem& p, const core::DeviceInfo& device) {
  static thread_local Memo<Sm90WeightTurnedPlan> memo;
  return memo.get(p, device, false, [&] { return cheapest(p, device); });
}

}  // namespace tconv::cuda
