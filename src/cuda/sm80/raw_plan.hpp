// What plans of the kernels that read raw operands in one launch (overlap, window, pointwise) have in common:
// their depth is split over a cluster, and copies are as wide as operands lie.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string>

#include "cuda/plan/memo.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/splits.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// The largest power of two, up to 16, that divides every number.
inline int64_t boundary_of(std::initializer_list<int64_t> numbers) {
  int64_t all = 16;
  for (const int64_t number : numbers) all = std::gcd(all, number);
  return all;
}

// Why mma.sync cannot take the problem's dtype here, or "".
inline std::string no_mma(const core::Problem& p, const core::DeviceInfo& d) {
  if (std::string words = no_mma(d); !words.empty()) return words;
  if (p.dtype == core::DType::f64) return "dtype f64: this kernel is for float32 and 16-bit types";
  return "";
}

// The cheapest plan_of(problem, {tile, splits}) over all tiles and splits. If samples must not depend on
// their batch, one sample alone says how the depth is split. Remembers its last result.
template <class PlanOf>
auto cheapest_plan(const core::Problem& p, const core::DeviceInfo& d, bool batch_invariant, int tiles,
                   const PlanOf& plan_of) {
  using Plan = decltype(plan_of(p, 0, 1));
  static thread_local Memo<Plan> memo;  // one for each family
  const auto cheapest = [&](const core::Problem& of, int forced_splits) {
    Plan best;
    for (int tile = 0; tile < tiles; ++tile) {
      for (int splits = 1; splits <= kMostSplits; ++splits) {
        if (forced_splits > 0 && splits != forced_splits) continue;
        const Plan plan = plan_of(of, tile, splits);
        if (plan.blocks > 0 && (best.blocks == 0 || plan.ms < best.ms)) best = plan;
      }
    }
    return best;
  };
  return memo.get(p, d, batch_invariant, [&] {
    if (!batch_invariant || p.n == 1) return cheapest(p, 0);
    core::Problem one = p;
    one.n = 1;
    return cheapest(p, cheapest(one, 0).config.splits);
  });
}

inline std::string split_words(int splits) {
  if (splits == 1) return "";
  return ", depth split over a cluster of " + std::to_string(splits) + " and summed in order";
}

inline plan::StageLine cluster_schedule_line(int splits, int64_t blocks, bool rows_first) {
  const std::string cluster = splits > 1 ? "a cluster of " + std::to_string(splits) + " blocks" : "a block";
  return {"schedule", cluster + " a tile, " + std::to_string(blocks) + " blocks, neighbours share " +
                          (rows_first ? "columns" : "rows")};
}

inline plan::StageLine staged_writer_line(int splits) {
  const std::string adds = splits > 1 ? ", splits added in order through the cluster's shared memory" : "";
  return {"writer", "sums into shared memory, then rows of positions" + adds};
}

// Where an output is made: the tile, and the place in it.
struct OutputTile {
  int64_t row_tile, row;
  int64_t column_tile, column;
};
// row_tiles, column_tiles: of the whole problem.
template <class Params>
std::string where_text(const core::Problem& p, int64_t element, const Params& k, const OutputTile& at,
                       int64_t row_tiles, int64_t column_tiles) {
  const int64_t tile =
      k.rows_first ? at.column_tile * row_tiles + at.row_tile : at.row_tile * column_tiles + at.column_tile;
  return element_text(p, element) + "; block " + std::to_string(tile * k.splits) + ", row " +
         std::to_string(at.row) + " and column " + std::to_string(at.column) + " of its tile";
}

}  // namespace tconv::cuda
