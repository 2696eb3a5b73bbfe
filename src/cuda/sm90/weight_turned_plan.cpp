#include "cuda/sm90/weight_turned_plan.hpp"

#include <algorithm>
#include <cmath>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/turned_pitch.hpp"
#include "cuda/sm90/weight.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using plan::Support;

constexpr int kEight = 8;        // channels of a piece
constexpr int kMostStride = 31;  // a piece then has columns enough

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

// The planes and shifts, and the axis of places.
bool set_sizes(Sm90WeightTurnedPlan& plan, const Problem& p) {
  const core::Polyphase form(p);
  Sm90WeightTurnedParams& k = plan.params;
  set_steps(k, p);
  k.l = p.l, k.lout = p.lout(), k.stride = p.stride, k.dilation = p.dilation, k.padding = p.padding;
  k.samples = p.n;
  k.cin_group = static_cast<int>(p.cin_per_group());
  k.cout_group = static_cast<int>(p.cout_per_group());
  k.k = static_cast<int>(p.k);
  k.tap_stride = form.tap_stride, k.step = form.step;
  k.y_planes = static_cast<int>(form.count);
  constexpr int64_t kFar = int64_t{1} << 28;
  const core::Size reach = core::Size(form.taps - 1) * form.step;
  if (reach >= kFar || p.l >= kFar || form.taps >= 1 << 20) return false;
  k.taps = static_cast<int>(form.taps);
  const int64_t first = std::max<int64_t>(0, ceil_div(p.padding - (form.count - 1) * p.dilation, p.stride));
  const int64_t end = std::min(p.l + reach.value(), core::floor_div(p.lout() - 1 + p.padding, p.stride) + 1);
  const int64_t positions = p.lout() == 0 ? 0 : std::max<int64_t>(0, end - first);
  k.first_u = first;
  k.stage_positions = weight_turned_positions(plan.mode);
  k.sample_stages = static_cast<int>(std::max<int64_t>(1, ceil_div(positions, k.stage_positions)));
  k.pitch = int64_t{k.sample_stages} * k.stage_positions;
  if (core::Size(k.pitch) * p.n >= kFar * 2 ||
      core::Size(k.pitch + first) * p.stride + p.padding >= kFar * 4) {
    return false;
  }
  k.stages = positions == 0 ? 0 : static_cast<int>(p.n * k.sample_stages);
  k.by_sample_stages = Divisor::of(static_cast<uint32_t>(k.sample_stages));
  k.by_pitch = Divisor::of(static_cast<uint32_t>(k.pitch));
  k.chunks = 1;
  k.chunk_positions = k.pitch * p.n, k.chunk_stages = k.stages;
  k.chain = kSm90WeightChain / (k.stage_positions / 16);
  return true;
}

UnitOrder units_of(Sm90WeightRaw& raw, int64_t channels, int64_t row, Arithmetic mode) {
  const int classes = row_classes(row, 16 / word_bytes(mode));
  raw.log_classes = 0;
  while (1 << raw.log_classes < classes) ++raw.log_classes;
  raw.blocks = static_cast<int>(ceil_div(channels, kEight * classes)) * classes;
  return {static_cast<int32_t>(channels), raw.log_classes};
}

bool set_tiles(Sm90WeightTurnedPlan& plan, const Problem& p) {
  Sm90WeightTurnedParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  if (k.cin_group >= 1 << 24 || k.cout_group >= 1 << 24) return false;
  k.x_units = units_of(k.x_raw, k.cin_group, k.x_step[1], plan.mode);
  k.y_units = units_of(k.y_raw, k.cout_group, k.y_step[1], plan.mode);
  const int most_shifts = std::max(1, kEight / k.x_raw.blocks);
  k.x_planes = plan.config.shifts_in_rows ? std::min(k.taps, most_shifts) : 1;
  if (plan.config.shifts_in_rows && k.x_planes == 1) return false;  // the same as without
  k.taps = static_cast<int>(ceil_div(k.taps, k.x_planes));
  k.shift = static_cast<int>(k.x_planes * k.step);
  k.x_raw.shifts = k.x_planes, k.x_raw.step = static_cast<int>(k.step), k.y_raw.shifts = 1;
  k.plane_blocks = static_cast<int>(ceil_div(k.x_raw.blocks * k.x_planes, kEight));
  const int tile_blocks = shape.rows() / 64;
  // A tile of two blocks of planes has all shifts of both; where these are far apart, blocks begin with
  // tiles.
  if (k.taps > tile_blocks && int64_t{k.taps - 1} * k.shift > k.stage_positions / 2) {
    k.taps = round_up(k.taps, tile_blocks);
  }
  const core::Size row_blocks = core::Size(k.plane_blocks) * k.taps;
  const core::Size columns = core::Size(k.y_raw.blocks) * kEight * k.y_planes;
  if (row_blocks >= 1 << 24 || columns >= 1 << 28) return false;
  k.row_blocks = static_cast<int>(row_blocks.value());
  k.columns = static_cast<int>(columns.value());
  k.row_tiles = static_cast<int>(ceil_div(k.row_blocks, tile_blocks));
  k.column_tiles = static_cast<int>(ceil_div(k.columns, shape.columns));
  if (core::Size(p.groups) * k.row_tiles * k.column_tiles >= 1 << 20) return false;
  k.tiles = static_cast<int>(p.groups * k.row_tiles * k.column_tiles);
  k.by_taps = Divisor::of(static_cast<uint32_t>(k.taps));
  // A single shift may have any number of units.
  k.by_x_units =
      Divisor::of(static_cast<uint32_t>(k.x_planes > 1 ? k.x_raw.blocks : k.plane_blocks * kEight));
  k.by_x_planes = Divisor::of(1);
  k.by_y_planes = Divisor::of(static_cast<uint32_t>(k.y_planes));
  const int most_blocks = k.taps % tile_blocks == 0   ? 1
                          : tile_blocks % k.taps == 0 ? tile_blocks / k.taps
                                                      : (tile_blocks - 1 + k.taps - 1) / k.taps + 1;
  k.x_blocks = std::min(k.plane_blocks, most_blocks);
  return true;
}

// Pieces of rows that have `columns` positions of a plane.
bool set_pieces(Sm90WeightRaw& raw, Arithmetic mode, int64_t columns, int stride, int phases,
                int64_t padding) {
  const int ahead = 16 / word_bytes(mode) - 1, most = mode == Arithmetic::ieee ? 232 : 248;
  const int most_columns = (most - ahead - phases) / stride + 1;
  if (columns > 1024 || most_columns < 1) return false;
  raw.stride = stride, raw.phases = phases, raw.padding = static_cast<int>(padding);
  raw.columns = static_cast<int>(columns);
  raw.boxes = static_cast<int>(ceil_div(columns, most_columns));
  raw.box_columns = static_cast<int>(ceil_div(columns, raw.boxes));
  raw.width = row_width(stride * (raw.box_columns - 1) + phases + ahead, mode);
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
  if (!set_pieces(k.x_raw, plan.mode, x_columns, 1, 1, 0) ||
      !set_pieces(k.y_raw, plan.mode, k.stage_positions, static_cast<int>(k.stride), k.y_planes, k.padding)) {
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
  const int64_t room = device.shared_per_block - kSm90WeightTurnedHead - nowhere;
  for (k.slots = 3; k.slots >= 2; --k.slots) {
    const int64_t left = room - int64_t{k.slots} * k.slot_bytes;
    const int64_t most = left / k.piece_bytes;
    k.pieces = static_cast<int>(std::clamp<int64_t>(most, 0, kSm90WeightTurnedMaxPieces)) / turners * turners;
    if (k.pieces * k.piece_bytes >= (k.slots > 2 ? 2 * kAhead : kAhead)) break;
  }
  if (k.slots < 2) return false;
  const int64_t used = int64_t{k.slots} * k.slot_bytes + int64_t{k.pieces} * k.piece_bytes;
  const int64_t staged = int64_t{shape.rows()} * (shape.columns + 8) * 4;
  plan.shared_bytes = static_cast<std::size_t>(kSm90WeightTurnedHead) +
                      static_cast<std::size_t>(std::max(used + nowhere, staged));
  return static_cast<int64_t>(plan.shared_bytes) <= device.shared_per_block;
}

// In units of one H200, a second or a cycle.
constexpr double kClock = 1.6e9, kL2BytesPerCycle = 40, kDramBytes = 4.2e12, kLaunch = 2.5e-6;
// Of what tensor cores and shared memory can do; cycles that a warp takes to turn 512 bytes (1024, in three
// parts) and for each piece, that a copy takes, and a stage; seconds of a block's start and end. Fitted to 91
// weight gradients in bf16, drawn ones and convolutions of vocoders (H100, with its 2.85 TB/s), within 20%;
// the share of shared memory and the lines in three parts were then set by 8 problems in ieee.
constexpr double kTensorShare = 0.8, kSharedShare = 0.7, kLine = 130, kPartsLine = 220, kPiece = 220;
constexpr double kCopy = 285, kStage = 130, kBlock = 1.4e-6, kBlockSums = 0.086e-6, kSumBytes = 4e12;

void set_cost(Sm90WeightTurnedPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  const Sm90WeightTurnedParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  const bool parts = plan.mode == Arithmetic::ieee;
  Sm90WeightTurnedCost& c = plan.cost;
  const double products = k.stage_positions / 16 * (parts ? 6.0 : 1.0) * 2 * shape.row_blocks;
  // 64 rows and the columns leave shared memory for each product.
  const double product_bytes = (64 + shape.columns) * 32.0;
  c.tensor = products * std::max(shape.columns / 2.0, product_bytes / 128);
  const int y_units = shape.columns / kEight / k.y_planes + (k.y_planes > 1 && k.column_tiles > 1 ? 1 : 0);
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
  c.pieces = (x_pieces * k.x_planes + y_pieces) / weight_turners(plan.mode, shape);
  const double stage =
      std::max({c.tensor / kTensorShare, c.shared / kSharedShare, c.memory / kL2BytesPerCycle,
                c.lines * (parts ? kPartsLine : kLine) + c.pieces * kPiece, c.copies * kCopy}) +
      kStage;
  const double sms = std::max(1, device.sm_count);
  const double turns = std::ceil(double(plan.blocks) / sms);
  const double main = turns * double(ceil_div(std::max(1, k.stages), k.splits)) * stage / kClock;
  const double dram = core::work_of(p).bytes / kDramBytes;
  const double wide = shape.row_blocks * shape.columns, part = double(plan.part_bytes);
  const double end = kBlock + wide * kBlockSums + part / 2.5e12;
  c.total = kLaunch + std::max(main, dram) + turns * end + (k.direct ? 0 : kLaunch + part / kSumBytes);
}

void set_splits(Sm90WeightTurnedPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  Sm90WeightTurnedParams& k = plan.params;
  k.splits = std::clamp(plan.config.splits, 1, std::max(1, k.stages));
  plan.config.splits = k.splits;
  plan.blocks = int64_t{k.tiles} * k.splits;
  k.direct = k.splits == 1;
  const bool one_chain = plan.mode == Arithmetic::ieee || k.stages <= k.chain;
  plan.part_bytes = k.direct && one_chain ? 0 : plan.blocks * plan.shape().rows() * plan.shape().columns * 4;
  set_cost(plan, p, device);
}

Sm90WeightTurnedPlan without_splits(const Problem& p, const core::DeviceInfo& device,
                                    const Sm90WeightTurnedConfig& config) {
  Sm90WeightTurnedPlan plan{arithmetic_of(p), config, {}, {}};
  if (weight_turned_has(plan.mode, config.shape) && set_sizes(plan, p) && set_tiles(plan, p) &&
      set_shared(plan, device)) {
    plan.blocks = 1;
  }
  return plan;
}

// Tensor copies step over whole units of 16 bytes from sample to sample and from group to group.
Support rows_support(const Problem& p, const char* name, const int64_t (&steps)[3], int64_t length,
                     int64_t channels) {
  const std::string of = std::string(name) + ": ";
  const int64_t eight = 16 / static_cast<int64_t>(core::size_of(p.dtype));
  if (length > 1 && steps[2] != 1) return Support::no(of + "positions are not neighbours in memory");
  if (steps[1] < 1 || (p.n > 1 && steps[0] < 1)) return Support::no(of + "rows share memory");
  if ((p.n > 1 && steps[0] % eight != 0) || (p.groups > 1 && steps[1] * channels % eight != 0)) {
    return Support::no(of + "samples or groups do not begin on multiples of 16 bytes");
  }
  if (!copies_reach(p, steps[1], channels * p.groups, std::max<int64_t>(1, steps[0]))) {
    return Support::no(of + "rows are too far apart for tensor copies");
  }
  return Support::yes();
}

}  // namespace

Support sm90_weight_turned_supports(const Problem& p) {
  if (Support takes = weight_supports(p); !takes.ok) return takes;
  const Arithmetic mode = arithmetic_of(p);
  if (mode == Arithmetic::f64) return Support::no("dtype f64: wgmma has no float64");
  if (mode == Arithmetic::tf32) return Support::no("tf32: its operands cannot be shifted in shared memory");
  if (p.stride > kMostStride) return Support::no("stride beyond 31: a piece would have few positions");
  if (core::Polyphase(p).count > 1 && p.dilation > 1) {
    return Support::no("several phases with a dilation: neighbouring phases are not neighbours in dy");
  }
  if (p.n == 0 || p.lout() == 0) return Support::no("no outputs");
  int64_t x[3], y[3];
  std::ranges::copy(p.x_steps(), x);
  std::ranges::copy(p.y_steps(), y);
  if (Support rows = rows_support(p, "x", x, p.l, p.cin_per_group()); !rows.ok) return rows;
  return rows_support(p, "dy", y, p.lout(), p.cout_per_group());
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
