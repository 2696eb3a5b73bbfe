// How cuda.sm80.thin divides a problem among warps and blocks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "cuda/sm80/thin.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// Printable and comparable: what a plan chooses. The other warps of a block have other positions.
struct ThinConfig {
  int row_tiles = 1;  // of a warp, up to kThinMostRowTiles
  int row_warps = 1;  // that share positions: 1, 2 or 4
  int turns = 1;      // of a tile's positions, up to kThinMostTurns
  bool operator==(const ThinConfig&) const = default;
};

inline constexpr int kThinMostTurns = 4;

struct ThinPlan {
  ThinConfig config;
  ThinParams params = {};  // without pointers
  int64_t blocks = 0;      // 0: it does not fit
  int64_t shared_bytes = 0;
  int64_t resident = 1;  // blocks that an SM has room for
  double ms = 0;         // by the model
};

// Empty, or the clause that refuses the problem.
std::string thin_refusal(const core::Problem& problem, const core::DeviceInfo& device);

ThinPlan thin_plan_of(const core::Problem& problem, const core::DeviceInfo& device, const ThinConfig& config);
ThinPlan thin_plan(const core::Problem& problem, const core::DeviceInfo& device);

// Predicted milliseconds of a plan that fits.
double thin_ms(const ThinPlan& plan, const core::Problem& problem, const core::DeviceInfo& device);

// Null if the configuration does not fit.
std::unique_ptr<const plan::Kernel> thin_kernel(const core::Problem& problem, const core::DeviceInfo& device,
                                                const ThinConfig& config);

std::string describe(const ThinPlan& plan, const core::Problem& problem);
std::vector<plan::StageLine> stages(const ThinPlan& plan, const core::Problem& problem);

// The block and warp that store an output.
std::string where(const ThinPlan& plan, const core::Problem& problem, int64_t element);

}  // namespace tconv::cuda
