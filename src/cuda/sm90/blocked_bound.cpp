// bound.hpp: what both kernels' bounds have in common, and that of cuda.sm90.blocked.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/bound.hpp"

namespace tconv::cuda {
namespace {

using blocked_model::kRates;
using blocked_model::Weights;
using core::DeviceInfo;
using core::Problem;

constexpr double kCycleMs = 1e3 / kRates.clock;

Weights least_of(const Weights& a, const Weights& b) {
  return {std::min(a.start, b.start),       std::min(a.tensor, b.tensor),
          std::min(a.load, b.load),         std::min(a.l2, b.l2),
          std::min(a.store, b.store),       std::min(a.dram, b.dram),
          std::min(a.blocking, b.blocking), std::min(a.rest, b.rest)};
}

// What whole_ms() of blocked_cost.cpp may weight with, whatever the tile, and however y is stored.
Weights weights_of(const Sm90Config& way, Arithmetic mode, int element, int64_t stride) {
  Sm90Config wide = way, narrow = way;
  wide.tile = 0, narrow.tile = kSm90SmallestTile;
  Weights least = least_of(blocked_model::weights_of(wide, mode, element, stride, false),
                           blocked_model::weights_of(narrow, mode, element, stride, true));
  if (!way.turned) {
    const double beside = blocked_model::weights_of(way, mode, element, stride, true).beside;
    least.dram = std::max(0.0, least.dram - beside);
  }
  return least;
}

}  // namespace

Sm90LeastWork sm90_least_work(const Problem& p, const Phases& f, const DeviceInfo& d,
                              const Sm90Layout& layout, const Sm90Config& config) {
  using core::ceil_div;
  const Sm90Tile& tile = sm90_tile(config);
  const int64_t columns = tile.columns(), row_blocks = sm90_row_blocks(p, f);
  const int64_t column_tiles =
      config.folded ? ceil_div(p.n * f.positions, columns) : p.n * ceil_div(f.positions, columns);
  const int64_t units = ceil_div(p.cin_per_group(), int64_t{kSm90Unit});
  const int64_t slabs =
      std::min<int64_t>(ceil_div(p.cin_per_group(), int64_t{layout.slab()}),
                        ceil_div(units, int64_t{config.splits}) * (kSm90Unit / layout.slab()));
  const int64_t rows = ceil_div(row_blocks, int64_t{tile.row_blocks}) * p.groups * config.splits;
  const int64_t block_couts = std::max<int64_t>(1, kSm90Rows / f.count);
  const bool partial = config.splits > 1 || f.count > kSm90Rows;
  return {static_cast<double>(ceil_div(rows * column_tiles, int64_t{std::max(1, d.sm_count)})),
          static_cast<double>(slabs), static_cast<double>(f.taps),
          static_cast<double>(tile.row_blocks * block_couts * columns) * static_cast<double>(p.stride),
          partial ? 4.0 * kSm90Rows * static_cast<double>(config.splits * p.groups * row_blocks) *
                        static_cast<double>(column_tiles * columns)
                  : 0};
}

Sm90BlockedBound::Sm90BlockedBound(const TransposedForm& form, const Problem& asked, const DeviceInfo& d,
                                   const Sm90Config& way)
    : form_(form), device_(d), phases_(phases_of(form.product)) {
  const Problem& p = form.product;
  const Arithmetic mode = arithmetic_of(p);
  const double copied = std::max(1.0, d.copy_gbps) * 1e6;  // bytes a millisecond
  layout_ = sm90_layout(mode, way.scaled);
  weights_ = weights_of(way, mode, layout_.element, form.deep.stride);
  fixed_ms_ = weights_.start + weights_.dram * (d.copy_gbps > 0 ? problem_work(p).bytes / copied : 0);
  if (!way.turned) {
    const double read =
        static_cast<double>(sm90_blocked_input(asked)) * static_cast<double>(size_of(asked.dtype));
    const double written = 16.0 / layout_.unit * layout_.parts * static_cast<double>(p.x_elements());
    const double launches = way.scaled ? 2 : 1;
    fixed_ms_ +=
        weights_.blocking * (launches * kRates.launch_ms + (read + written) / (kRates.plain * copied));
  }
  const int words = layout_.element / 4;
  store_rate_ = std::max(kRates.long_passes[words], kRates.folded[words]);
  if (p.stride == 1) store_rate_ = std::max(store_rate_, kRates.lines);
  lacking_ = way.phased ? 1 - static_cast<double>(form.deep.k - form.deep.first) / form.deep.phases : 0;
}

// The same terms as sm90_blocked_cost(), of blocks that fill every SM; of turning, nothing.
double Sm90BlockedBound::ms(const Sm90Config& config) const {
  const Sm90LeastWork work = sm90_least_work(form_.product, phases_, device_, layout_, config);
  const Sm90Tile& tile = sm90_tile(config);
  const double products = work.slabs * (work.taps - lacking_);
  const double tensor = products * layout_.products * 2 * tile.n / kRates.tensor;
  const double weights = products * layout_.parts * tile.row_blocks * kSm90PartBytes;
  const double x = work.slabs * layout_.parts * kSm90Blocks * tile.columns() * 16.0;
  const double store = work.partial_bytes > 0 ? 0 : work.outputs / store_rate_;
  double rest = kRates.start * kCycleMs;
  if (work.partial_bytes > 0) {
    rest +=
        kRates.launch_ms + 2 * work.partial_bytes / (kRates.l2[1] * std::max(1, device_.sm_count)) * kCycleMs;
  }
  return fixed_ms_ + weights_.rest * rest +
         work.rounds * kCycleMs *
             (weights_.tensor * tensor + weights_.l2 * (x + weights) / kRates.l2[0] + weights_.store * store);
}

}  // namespace tconv::cuda
