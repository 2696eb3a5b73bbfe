#include "cuda/sm80/pointwise_plan.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/raw_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

constexpr int64_t kCount = int64_t{1} << 30;

bool is_strided(const Problem& p) {
  return p.operation == core::Operation::strided;
}

std::string copies(int bytes, int element) {
  return bytes < 4 ? "elements of " + std::to_string(element) + " bytes"
                   : "asynchronous copies of " + std::to_string(bytes) + " bytes";
}

}  // namespace

int pointwise_copy(int64_t bytes, int element) {
  for (const int piece : {16, 8, 4}) {
    if (bytes % piece == 0) return piece;
  }
  return element;
}

void set_pointwise_sizes(PointwisePlan& plan, const Problem& p) {
  PointwiseParams& k = plan.params;
  const bool strided = is_strided(p);
  const int64_t element = shape_of(arithmetic_of(p)).element;
  const auto steps = strided ? p.y_steps() : p.x_steps();
  const int64_t channels = strided ? p.cout : p.cin;
  k.x_step[0] = steps[0], k.x_step[1] = steps[1];
  k.l = p.l;
  k.groups = static_cast<int>(p.groups);
  k.rows = static_cast<int>(strided ? p.cin_per_group() : p.cout_per_group());
  k.depth = static_cast<int>(strided ? p.cout_per_group() : p.cin_per_group());
  plan.turned = !strided;
  k.weight_step = plan.turned ? k.rows : k.depth;
  k.x_copy = pointwise_copy(
      boundary_of({p.n > 1 ? steps[0] * element : 0, channels > 1 ? steps[1] * element : 0}), int(element));
  k.weight_copy = pointwise_copy(boundary_of({k.weight_step * element}), int(element));
  k.vectors = p.l % 4 == 0;
  k.slabs = static_cast<int>(ceil_div(k.depth, kPointwiseSlabBytes / element));
}

void set_pointwise_blocks(PointwisePlan& plan, const Problem& p) {
  PointwiseParams& k = plan.params;
  k.splits = plan.config.splits;
  const int64_t row_tiles = ceil_div(k.rows, plan.tile_rows), rows = row_tiles * k.groups;
  const int64_t sample_tiles = ceil_div(p.l, plan.tile_columns), columns = sample_tiles * p.n;
  if (core::Size(rows) * columns * k.splits > kCount) return;
  k.splits_div = Divisor::of(static_cast<uint32_t>(k.splits));
  k.row_tiles = Divisor::of(static_cast<uint32_t>(row_tiles));
  k.column_tiles = Divisor::of(static_cast<uint32_t>(sample_tiles));
  k.rows_first = p.n * p.l > k.rows;
  k.low_tiles = Divisor::of(static_cast<uint32_t>(k.rows_first ? rows : columns));
  plan.blocks = rows * columns * k.splits;
}

PointwisePlan pointwise_plan_of(const Problem& p, const DeviceInfo& d, const PointwiseConfig& config) {
  PointwisePlan plan;
  plan.config = config;
  PointwiseParams& k = plan.params;
  const PointwiseTile& tile = kPointwiseTiles[config.tile];
  plan.tile_rows = tile.rows, plan.tile_columns = tile.columns;
  const int element = shape_of(arithmetic_of(p)).element;
  set_pointwise_sizes(plan, p);
  if (config.splits > 1 && (d.sm < 90 || config.splits > k.slabs)) return plan;
  const int64_t slabs = ceil_div(k.slabs, config.splits),
                stage = pointwise_stage_bytes(tile, element, plan.turned);
  const int64_t shared = d.shared_per_sm / tile.blocks - 1024;
  k.stages = static_cast<int>(std::clamp<int64_t>(shared / stage, 2, kPointwiseMaxStages));
  plan.shared_bytes =
      std::max<int64_t>(std::min<int64_t>(k.stages, slabs) * stage, pointwise_sum_bytes(tile));
  if (plan.shared_bytes > d.shared_per_block) return plan;
  set_pointwise_blocks(plan, p);
  if (plan.blocks > 0) plan.ms = pointwise_ms(plan, p, d);
  return plan;
}

PointwisePlan pointwise_plan(const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  return cheapest_plan(p, d, batch_invariant, kPointwiseTileCount,
                       [&](const Problem& of, int tile, int splits) {
                         return pointwise_plan_of(of, d, {tile, splits});
                       });
}

std::string pointwise_refusal(const Problem& p, const DeviceInfo& d) {
  if (p.operation != core::Operation::transposed && !is_strided(p)) {
    return std::string("operation ") + name_of(p.operation) + ": this kernel is for transposed and strided";
  }
  if (std::string none = no_mma(p, d); !none.empty()) return none;
  if (p.k != 1 || p.stride != 1 || p.padding != 0 || p.lout() != p.l) {
    return "more than one tap, a stride or padding: this kernel is for pointwise layers";
  }
  if (p.l > 1 && (is_strided(p) ? p.y_steps() : p.x_steps())[2] != 1) return "positions are not contiguous";
  if (p.n * p.l < 1) return "no positions";
  if (std::string far = core::beyond_tiles(p); !far.empty()) return far;
  if (core::Size(p.n) * p.l >= kCount || p.cin >= kCount || p.cout >= kCount) {
    return "positions or channels reach 2^30";
  }
  if (std::string few = too_few_terms(p); !few.empty()) return few;
  for (int tile = 0; tile < kPointwiseTileCount; ++tile) {
    if (pointwise_plan_of(p, d, {tile, 1}).blocks > 0) return "";
  }
  return "its tiles do not fit in shared memory, or are too many";
}

std::string describe(const PointwisePlan& plan, const Problem& p) {
  return std::string(name_of(arithmetic_of(p))) + ", tile of " + std::to_string(plan.tile_rows) +
         " channels x " + std::to_string(plan.tile_columns) + " positions" + split_words(plan.params.splits);
}

std::vector<plan::StageLine> stages(const PointwisePlan& plan, const Problem& p) {
  const PointwiseParams& k = plan.params;
  const int element = static_cast<int>(size_of(p.dtype));
  return {cluster_schedule_line(k.splits, plan.blocks, k.rows_first),
          {"source", "rows as they lie in memory, by " + copies(k.x_copy, element) + ": " +
                         std::to_string(k.stages) + " stages of " +
                         std::to_string(kPointwiseSlabBytes / element) + " channels"},
          {"weights", "raw, by " + copies(k.weight_copy, element) + " into the same stages"},
          {"product", "mma.sync m16n8"},
          epilogue_line(p),
          staged_writer_line(k.splits)};
}

std::string where(const PointwisePlan& plan, const Problem& p, int64_t element) {
  const PointwiseParams& k = plan.params;
  const int64_t channels = int64_t{k.groups} * k.rows;
  const int64_t i = element % p.l, channel = element / p.l % channels, n = element / p.l / channels;
  const int64_t group = channel / k.rows, inner = channel % k.rows;
  return where_text(p, element, k,
                    {group * k.row_tiles.value + inner / plan.tile_rows, inner % plan.tile_rows,
                     n * k.column_tiles.value + i / plan.tile_columns, i % plan.tile_columns},
                    int64_t{k.row_tiles.value} * k.groups, k.column_tiles.value * p.n);
}

}  // namespace tconv::cuda
