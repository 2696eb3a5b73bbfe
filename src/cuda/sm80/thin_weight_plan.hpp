// How cuda.sm80.thin_weight divides a problem among warps, blocks and walkers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "cuda/sm80/thin_weight.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// Printable and comparable: what a plan chooses. The warps that share neither rows nor columns of a block
// share the depth.
struct ThinWeightConfig {
  bool rows_move = false;  // the rows are pairs (channel of dy, tap), the columns channels of x
  int tile = 0;            // index into kThinWeightTileTable
  int row_warps = 1, column_warps = 1;
  int words = 64;  // of a tile of positions: of 16-bit types two positions each
  bool operator==(const ThinWeightConfig&) const = default;
};

// The fewest and most words of a tile of positions.
inline constexpr int kThinWeightLeastWords = 16, kThinWeightMostWords = 512;

struct ThinWeightPlan {
  ThinWeightConfig config;
  ThinWeightParams params = {};  // without pointers
  int64_t blocks = 0;            // 0: it does not fit
  int64_t shared_bytes = 0, part_bytes = 0;
  int64_t resident = 1;  // blocks that an SM has room for
  double ms = 0;         // by the model
};

// Empty, or the clause that refuses the problem.
std::string thin_weight_refusal(const core::Problem& problem, const core::DeviceInfo& device);

ThinWeightPlan thin_weight_plan_of(const core::Problem& problem, const core::DeviceInfo& device,
                                   const ThinWeightConfig& config);
ThinWeightPlan thin_weight_plan(const core::Problem& problem, const core::DeviceInfo& device);

// Predicted milliseconds of a plan that fits.
double thin_weight_ms(const ThinWeightPlan& plan, const core::Problem& problem,
                      const core::DeviceInfo& device);

// Null if the configuration does not fit.
std::unique_ptr<const plan::Kernel> thin_weight_kernel(const core::Problem& problem,
                                                       const core::DeviceInfo& device,
                                                       const ThinWeightConfig& config);

std::string describe(const ThinWeightPlan& plan, const core::Problem& problem);
std::vector<plan::StageLine> stages(const ThinWeightPlan& plan, const core::Problem& problem);

// The block and warp that sum an element of dw.
std::string where(const ThinWeightPlan& plan, const core::Problem& problem, int64_t element);

}  // namespace tconv::cuda
