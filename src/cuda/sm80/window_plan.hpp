// Which tiles and splits cuda.sm80.window takes for a problem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "cuda/sm80/window.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// Printable and comparable: what a plan chooses.
struct WindowConfig {
  int tile = 0;    // of kWindowTiles
  int splits = 1;  // of the depth: blocks of a cluster
  bool operator==(const WindowConfig&) const = default;
};

struct WindowPlan {
  WindowConfig config;
  WindowParams params = {};  // without pointers
  int64_t window = 0;        // elements of a channel's window
  int64_t blocks = 0;        // 0: it does not fit
  int64_t shared_bytes = 0;
  double ms = 0;  // by the model
};

// Empty, or the clause that refuses the problem.
std::string window_refusal(const core::Problem& problem, const core::DeviceInfo& device);

WindowPlan window_plan_of(const core::Problem& problem, const core::DeviceInfo& device,
                          const WindowConfig& config);
WindowPlan window_plan(const core::Problem& problem, const core::DeviceInfo& device, bool batch_invariant);

// Predicted milliseconds of a plan that fits.
double window_ms(const WindowPlan& plan, const core::Problem& problem, const core::DeviceInfo& device);

// How an operand's rows are copied if their addresses and steps are multiples of `bytes`.
WindowPieces window_pieces(int64_t row_bytes, int64_t bytes, int element);

// Null if the configuration does not fit.
std::unique_ptr<const plan::Kernel> window_kernel(const core::Problem& problem,
                                                  const core::DeviceInfo& device, const WindowConfig& config);

std::string describe(const WindowPlan& plan, const core::Problem& problem);
std::vector<plan::StageLine> stages(const WindowPlan& plan, const core::Problem& problem);

// The block that stores an output; if there are several splits, the first block of its cluster.
std::string where(const WindowPlan& plan, const core::Problem& problem, int64_t element);

}  // namespace tconv::cuda
