// Which tiles and splits cuda.sm80.pointwise takes for a problem, and what cuda.sm90.pointwise shares with
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "cuda/sm80/pointwise.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// Printable and comparable: what a plan chooses.
struct PointwiseConfig {
  int tile = 0;    // of kPointwiseTiles or kSm90PointwiseTiles
  int splits = 1;  // of the depth: blocks of a cluster
  bool operator==(const PointwiseConfig&) const = default;
};

struct PointwisePlan {
  PointwiseConfig config;
  int tile_rows = 0, tile_columns = 0;
  PointwiseParams params = {};  // without pointers
  bool turned = false;          // weights lie as w[c][r]
  int64_t blocks = 0;           // 0: it does not fit
  int64_t shared_bytes = 0;
  double ms = 0;  // by the model
};

// Empty, or the clause that refuses the problem.
std::string pointwise_refusal(const core::Problem& problem, const core::DeviceInfo& device);

PointwisePlan pointwise_plan_of(const core::Problem& problem, const core::DeviceInfo& device,
                                const PointwiseConfig& config);
PointwisePlan pointwise_plan(const core::Problem& problem, const core::DeviceInfo& device,
                             bool batch_invariant);

// Predicted milliseconds of a plan that fits.
double pointwise_ms(const PointwisePlan& plan, const core::Problem& problem, const core::DeviceInfo& device);

// What does not depend on the tile.
void set_pointwise_sizes(PointwisePlan& plan, const core::Problem& problem);
// Tiles and blocks of config, tile_rows and tile_columns. Leaves plan.blocks at 0 if they are too many.
void set_pointwise_blocks(PointwisePlan& plan, const core::Problem& problem);

// From a block to the whole: how rounds of blocks, clusters and memory add up. Microseconds.
struct PointwiseTotals {
  double launch;
  double wave;    // another round of blocks, relative to the first one
  double odd;     // clusters of 3, 5, 6 or 7 blocks, which begin late, relative to others
  double memory;  // relative to the time of the bytes at the rate of a copy
  double both;    // the power in which latency and work add up
};
// Milliseconds. alone: of a block that is alone; work: what a block adds to an SM that has enough; most:
// blocks that an SM has, by registers.
double pointwise_total_ms(const PointwisePlan& plan, const core::Problem& problem,
                          const core::DeviceInfo& device, const PointwiseTotals& totals, double alone,
                          double work, int most);

// The widest piece in which rows can be copied if their addresses and steps are multiples of `bytes`.
int pointwise_copy(int64_t bytes, int element);

// Null if the configuration does not fit.
std::unique_ptr<const plan::Kernel> pointwise_kernel(const core::Problem& problem,
                                                     const core::DeviceInfo& device,
                                                     const PointwiseConfig& config);

std::string describe(const PointwisePlan& plan, const core::Problem& problem);
std::vector<plan::StageLine> stages(const PointwisePlan& plan, const core::Problem& problem);

// The block that stores an output; if there are several splits, the first block of its cluster.
std::string where(const PointwisePlan& plan, const core::Problem& problem, int64_t element);

}  // namespace tconv::cuda
