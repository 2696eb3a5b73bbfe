// What the second kernel of cuda.sm90.weight_blocked adds.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"

namespace tconv::cuda {

using core::ceil_div;

Sm90WeightBlockedSumParams sm90_weight_blocked_sum(const Sm90WeightBlockedParams& k,
                                                   const Sm90WeightBlockedShape& shape) {
  Sm90WeightBlockedSumParams s{};
  s.part_size = int64_t{k.tiles} * shape.rows() * shape.columns;
  s.splits = k.splits;
  s.runs = k.splits >= kSm90WeightMostSplits ? 8 : k.splits >= kSm90WeightManySplits ? 2 : 1;
  s.tile_rows = shape.rows(), s.tile_columns = shape.columns;
  s.cin_group = k.cin_group, s.cout_group = k.cout_group, s.k = k.k;
  s.tap_stride = static_cast<int>(std::min<int64_t>(k.tap_stride, k.k));
  s.x_planes = k.x_planes, s.y_planes = k.y_planes, s.taps = k.taps;
  s.columns = k.columns;
  s.in_rows = k.in_rows, s.in_tiles = k.in_tiles, s.in_columns = k.in_columns;
  s.x_units = k.x_units, s.y_units = k.y_units, s.by_x_units = k.by_x_units;
  const int tile_units = shape.columns / 4, units = k.in_tiles.columns * tile_units,
            planes = k.plane_blocks * 64, groups = k.tiles / k.in_tiles.of_group;
  s.units = int64_t{groups} * planes * units;
  auto by = [](int value) { return Divisor::of(static_cast<uint32_t>(value)); };
  s.by_units = by(units), s.by_planes = by(planes), s.by_tile_units = by(tile_units);
  s.by_x_planes = k.by_x_planes, s.by_y_planes = k.by_y_planes;
  if (weight_sums_lines(k)) {
    constexpr int kLeast = 32, kBlocks = 512;  // units of a block; blocks that are enough
    const int64_t channels = int64_t{groups} * k.cin_group;
    s.line_rows = k.taps * k.x_planes;
    int chunk = std::min({units, kSm90WeightSumThreads, kSm90WeightLineBytes / 16 / s.line_rows});
    while (chunk >= 2 * kLeast && channels * ceil_div(units, chunk) < kBlocks) chunk /= 2;
    const int64_t chunks = ceil_div(units, chunk);
    s.line_bytes = chunk * s.line_rows * 16;
    s.line_blocks = channels * chunks;
    s.by_chunks = by(static_cast<int>(chunks)), s.by_chunk_units = by(chunk);
    s.by_line_rows = by(s.line_rows), s.by_cin = by(k.cin_group);
  }
  return s;
}

}  // namespace tconv::cuda
