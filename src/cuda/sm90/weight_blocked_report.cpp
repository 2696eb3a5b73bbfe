// What `tconv plan` says of cuda.sm90.weight_blocked.
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/weight.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"

namespace tconv::cuda {

using core::Problem;

namespace {

// The inverse of UnitOrder::channel().
int64_t place_in_units(const UnitOrder& units, int64_t channel, int64_t phases, int64_t phase) {
  const int64_t classes = int64_t{1} << units.log_classes, in_class = channel / classes;
  const int64_t block = in_class / 8 * classes + channel % classes;
  return (block * phases + phase) * 8 + in_class % 8;
}

int64_t column_of(const WeightColumns& c, int64_t channel, int64_t phase) {
  return phase < c.first ? channel * c.first + phase : c.first_run + channel * c.rest + phase - c.first;
}

// The inverse of WeightTiles::place().
int64_t tile_of(const WeightTiles& t, int64_t row, int64_t column) {
  return column < t.last_columns
             ? column * t.rows + row
             : int64_t{t.last_columns} * t.rows + (column - t.last_columns) * t.early_rows + row;
}

}  // namespace

std::string sm90_weight_blocked_where(const Sm90WeightBlockedParams& k, const Sm90WeightBlockedShape& shape,
                                      const Problem& p, int64_t element) {
  using std::to_string;
  const int64_t kk = element % p.k, rest = element / p.k, co = rest % k.cout_group, ci = rest / k.cout_group;
  const int64_t tap = kk / k.tap_stride, group = ci / k.cin_group;
  const int64_t in_group = ci % k.cin_group, phase = kk % k.tap_stride;
  const int64_t x_plane = k.x_units.channels > 0 ? place_in_units(k.x_units, in_group, 1, 0) +
                                                       tap % k.x_planes * k.by_x_units.value * 8
                                                 : in_group * k.x_planes + tap % k.x_planes;
  const int64_t y_plane = k.y_units.channels > 0 ? place_in_units(k.y_units, co, k.y_planes, phase)
                                                 : column_of(k.in_columns, co, phase);
  const int64_t shift = tap / k.x_planes, planes = x_plane / 64;
  const int64_t block = shift < k.in_rows.early_shifts ? planes * k.in_rows.early_shifts + shift
                                                       : k.in_rows.early_blocks + planes;
  const int64_t row = block * 64 + x_plane % 64;
  const int64_t tile =
      group * k.in_tiles.of_group + tile_of(k.in_tiles, row / shape.rows(), y_plane / shape.columns);
  return element_text(p, element) + "; " + blocks_text(tile, k.tiles, k.splits) + ", row " +
         to_string(row % shape.rows()) + " and column " + to_string(y_plane % shape.columns) + " of the tile";
}

std::string arithmetic_text(const Sm90WeightBlockedPlan& plan) {
  const bool ieee = plan.mode == Arithmetic::ieee;
  if (plan.config.scaled) return ieee ? "ieee by three products of scaled f16" : "tf32 in scaled f16";
  return ieee ? "ieee by six products of bf16" : name_of(plan.mode);
}

std::string describe(const Sm90WeightBlockedPlan& plan) {
  using std::to_string;
  const Sm90WeightBlockedParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  std::string out = arithmetic_text(plan) + ", tile " + to_string(shape.rows()) + "x" +
                    to_string(shape.columns) + " of (" + to_string(k.cin_group) + " ci, " +
                    to_string(k.x_planes) + " shifts) at " + to_string(k.taps) + " shifts x (" +
                    to_string(k.cout_group) + " co, " + to_string(k.y_planes) + " phases), " +
                    to_string(k.tiles) + " tiles, " + to_string(plan.positions) + " positions";
  if (plan.chunks > 1) out += " in " + to_string(plan.chunks) + " chunks";
  if (k.splits > 1) out += ", split " + to_string(k.splits) + " ways and summed in order";
  if (k.splits == 1 && !k.direct) out += ", through partial sums, since its columns are scattered in dw";
  return out;
}

}  // namespace tconv::cuda
