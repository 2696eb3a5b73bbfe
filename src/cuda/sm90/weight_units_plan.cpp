#include "cuda/sm90/weight_units_plan.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/host/tensor_map.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/weight_plan.hpp"
#include "cuda/sm90/weight.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"

namespace tconv::cuda {

using core::ceil_div;
using core::Problem;
using plan::Support;

namespace {

constexpr int kEight = 8;        // channels of a unit
constexpr int kMostStride = 31;  // the rows of a tensor copy then have columns enough

UnitOrder units_of(Sm90WeightUnitRows& raw, int64_t channels, int64_t row, int eight) {
  const int classes = row_classes(row, eight);
  raw.log_classes = 0;
  while (1 << raw.log_classes < classes) ++raw.log_classes;
  raw.blocks = static_cast<int>(ceil_div(channels, kEight * classes)) * classes;
  return {static_cast<int32_t>(channels), raw.log_classes};
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

bool set_unit_sizes(Sm90WeightUnitsParams& k, const Problem& p, int positions_of_stage, int depth,
                    int early) {
  const core::Polyphase form(p);
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
  k.sums_y = sums_y(p);
  const int64_t first =
      k.sums_y ? p.padding / p.stride
               : std::max<int64_t>(0, ceil_div(p.padding - (form.count - 1) * p.dilation, p.stride));
  const int64_t last = p.lout() - 1 + p.padding;
  const int64_t end = k.sums_y ? (last + early) / p.stride + 1
                               : std::min(p.l + reach.value(), core::floor_div(last, p.stride) + 1);
  const int64_t positions = p.lout() == 0 ? 0 : std::max<int64_t>(0, end - first);
  k.first_u = first;
  k.stage_positions = positions_of_stage;
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
  k.chain = std::max(1, kSm90WeightChain / (k.stage_positions / depth));
  return true;
}

bool set_unit_tiles(Sm90WeightUnitsParams& k, Sm90WeightUnitRows& x, Sm90WeightUnitRows& y, const Problem& p,
                    const Sm90WeightBlockedShape& shape, bool shifts_in_rows) {
  const int eight = 16 / static_cast<int>(core::size_of(p.dtype));
  if (k.cin_group >= 1 << 24 || k.cout_group >= 1 << 24) return false;
  if (core::Size(k.cout_group) * p.k >= int64_t{1} << 30) return false;
  k.x_units = units_of(x, k.cin_group, k.x_step[1], eight);
  k.y_units = units_of(y, k.cout_group, k.y_step[1], eight);
  const int most_shifts = std::max(1, kEight / x.blocks);
  k.x_planes = shifts_in_rows ? std::min(k.taps, most_shifts) : 1;
  if (shifts_in_rows && k.x_planes == 1) return false;  // the same as without
  k.taps = static_cast<int>(ceil_div(k.taps, k.x_planes));
  k.shift = static_cast<int>(k.x_planes * k.step);
  x.shifts = k.x_planes, x.step = static_cast<int>(k.step), y.shifts = 1;
  k.plane_blocks = static_cast<int>(ceil_div(x.blocks * k.x_planes, kEight));
  const int tile_blocks = shape.rows() / 64;
  // A tile of two blocks of planes has all shifts of both; where these are far apart, blocks begin with
  // tiles.
  if (k.taps > tile_blocks && int64_t{k.taps - 1} * k.shift > k.stage_positions / 2) {
    k.taps = round_up(k.taps, tile_blocks);
  }
  const core::Size row_blocks = core::Size(k.plane_blocks) * k.taps;
  const core::Size columns = core::Size(y.blocks) * kEight * k.y_planes;
  if (row_blocks >= 1 << 24 || columns >= 1 << 28) return false;
  k.row_blocks = static_cast<int>(row_blocks.value());
  k.columns = static_cast<int>(columns.value());
  const auto row_tiles = static_cast<int>(ceil_div(k.row_blocks, tile_blocks));
  const auto column_tiles = static_cast<int>(ceil_div(k.columns, shape.columns));
  if (core::Size(p.groups) * row_tiles * column_tiles >= 1 << 20) return false;
  k.in_tiles = WeightTiles::all(row_tiles, column_tiles);
  k.tiles = static_cast<int>(p.groups * k.in_tiles.of_group);
  k.in_rows = WeightRows::all(k.taps);
  // A single shift may have any number of units.
  k.by_x_units = Divisor::of(static_cast<uint32_t>(k.x_planes > 1 ? x.blocks : k.plane_blocks * kEight));
  k.by_x_planes = Divisor::of(1);
  k.by_y_planes = Divisor::of(static_cast<uint32_t>(k.y_planes));
  const int most_blocks = k.taps % tile_blocks == 0   ? 1
                          : tile_blocks % k.taps == 0 ? tile_blocks / k.taps
                                                      : (tile_blocks - 1 + k.taps - 1) / k.taps + 1;
  k.x_blocks = std::min(k.plane_blocks, most_blocks);
  return true;
}

Support weight_units_support(const Problem& p) {
  if (Support takes = weight_supports(p); !takes.ok) return takes;
  if (arithmetic_of(p) == Arithmetic::f64) return Support::no("dtype f64: wgmma has no float64");
  if (p.stride > kMostStride) return Support::no("stride beyond 31: a copy would bring few positions");
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

std::string describe_units(const Sm90WeightUnitsParams& k, const Sm90WeightBlockedShape& shape,
                           Arithmetic mode) {
  using std::to_string;
  std::string out = std::string(mode == Arithmetic::ieee ? "ieee by six products of bf16" : name_of(mode)) +
                    ", tile " + to_string(shape.rows()) + "x" + to_string(shape.columns) + " of (" +
                    to_string(k.cin_group) + " ci, " + to_string(k.x_planes) + " shifts) at " +
                    to_string(k.taps) + " shifts x (" + to_string(k.cout_group) + " co, " +
                    to_string(k.y_planes) + " phases), " + to_string(k.tiles) + " tiles, " +
                    to_string(k.stages) + " stages of " + to_string(k.stage_positions) + " positions";
  if (k.splits > 1) out += ", split " + to_string(k.splits) + " ways and summed in order";
  return out;
}

core::Status set_unit_maps(Sm90WeightUnitRows& rows, const Problem& p, const void* from,
                           const int64_t (&steps)[3], int64_t length, int64_t channels, int box_rows,
                           bool rounded) {
  const auto element = static_cast<int>(core::size_of(p.dtype));
  const int64_t classes = int64_t{1} << rows.log_classes, row = steps[1] * element;
  for (int64_t i = 0; i < classes; ++i) {
    const int64_t there = std::max<int64_t>(1, ceil_div(channels - i, classes)), step = row * classes;
    TensorShape shape{static_cast<const std::byte*>(from) + (i < channels ? i * row : 0),
                      element,
                      {length, there, p.groups, p.n},
                      {step, p.groups > 1 ? row * channels : step, p.n > 1 ? steps[0] * element : step},
                      {rows.width, box_rows, 1, 1},
                      false,
                      rounded};
    rows.late[i] = static_cast<int32_t>(begin_on_boundary(shape));
    if (const core::Status made = make_tensor_map(shape, rows.maps[i]); !made.ok()) return made;
  }
  return {};
}

std::string unit_bias_where(int64_t channel) {
  constexpr int64_t kWarps = kSm90WeightBiasThreads / 32;
  return "the sum of dy's channel " + std::to_string(channel) +
         "; first row tile, all splits, warps that make dy's planes; then block " +
         std::to_string(channel / kWarps) + ", warp " + std::to_string(channel % kWarps) +
         " of the last kernel";
}

plan::StageLine unit_bias_line(const Sm90WeightUnitsParams& k, const char* verb) {
  return {"bias", std::string("dy summed by the warps that ") + verb + " it; a last kernel adds " +
                      std::to_string(k.bias_each) + (k.bias_each == 1 ? " part" : " parts") +
                      " of a channel in float64"};
}

core::Status add_unit_parts(const Launcher& launcher, void (*sum)(Sm90WeightBlockedSumParams),
                            void (*bias)(Sm90WeightBiasParams), const Sm90WeightUnitsParams& params,
                            const Sm90WeightBlockedShape& shape, const Problem& problem,
                            const plan::Operands& operands) {
  core::Status status;
  if (!params.direct) {
    Sm90WeightBlockedSumParams of_dw = sm90_weight_blocked_sum(params, shape);
    of_dw.parts = params.parts;
    of_dw.output = operands.output;
    status = launcher.run(
        sum, {ceil_div(of_dw.units * of_dw.runs, kSm90WeightSumThreads), kSm90WeightSumThreads}, of_dw);
  }
  if (!params.sums_y || !status.ok()) return status;
  return launcher.run(bias, {ceil_div(problem.cout, kSm90WeightBiasThreads / 32), kSm90WeightBiasThreads},
                      {params.bias_parts, operands.grad_bias, problem.cout, params.bias_each});
}

}  // namespace tconv::cuda
