// What plans of the kernels that read raw operands in one launch (overlap, window, pointwise) have in common:
// their depth is split over a cluster, and copies are as wide as operands lie.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string>

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// The largest power of two, up to 16, that divides every number.
inline int64_t boundary_of(std::initializer_list<int64_t> numbers) {
  int64_t all = 16;
  for (const int64_t number : numbers) all = std::gcd(all, number);
  return all;
}

// cheapest(problem, splits), 0: any splits. If samples must not depend on their batch, one sample alone says
// how the depth is split.
template <class Cheapest>
auto plan_with_splits(const core::Problem& p, bool batch_invariant, const Cheapest& cheapest) {
  if (!batch_invariant || p.n == 1) return cheapest(p, 0);
  core::Problem one = p;
  one.n = 1;
  return cheapest(p, cheapest(one, 0).config.splits);
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

}  // namespace tconv::cuda
