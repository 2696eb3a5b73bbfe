// The configuration of cuda.sm80.dense and the cost model that chooses it. Pure functions of problem, device
// and options; no CUDA here.
#pragma once

#include <span>
#include <string>

#include "core/problem.hpp"
#include "cuda/sm80/dense.hpp"

namespace tconv::cuda {

struct Sm80Config {
  int tile = 0;  // index into sm80_tiles()
  int splits = 1;
  int tap_group = 1;     // taps that share an x stage
  int pass_columns = 0;  // columns staged at once on the way out
  int walkers = 1;       // blocks along the columns
  bool resident = false;
  bool folded = false;
  bool operator==(const Sm80Config&) const = default;
};

// Predicted milliseconds: each unit's own time, and the whole.
struct Sm80Cost {
  double tensor = 0, shared = 0, waves = 0, l2 = 0, dram = 0, launch = 0, total = 0;
};

struct Sm80Plan {
  Phases phases;
  Sm80Mode mode;
  Sm80Config config;
  Sm80Cost cost;
  Sm80Params params;  // without pointers
  std::size_t shared_bytes = 0;
  int64_t blocks = 0;
  int64_t packed_bytes = 0, marks_at = 0, partial_bytes = 0;
};

std::span<const Sm80Tile> sm80_tiles();
Sm80Mode sm80_mode(const core::Problem& problem);
const char* name_of(Sm80Mode mode);
bool sm80_has(Sm80Mode mode, int tile);

// The whole plan of one configuration, with its predicted cost; blocks is 0 where it does not fit.
Sm80Plan sm80_plan_of(const core::Problem&, const core::DeviceInfo&, const Sm80Config&);
// The most taps that a stage of that tile may hold.
int sm80_tap_group(const core::Problem&, int tile);
// What a sum of partial sums needs to know of a problem; its rows and columns are the caller's.
Sm80SumParams sm80_sum_phases(const core::Problem&, const Phases&);
// Of a plan with partial sums, without pointers.
Sm80SumParams sm80_sum_params(const Sm80Plan&, const core::Problem&);
// The cheapest one. batch_invariant: the split does not depend on n.
Sm80Plan sm80_plan(const core::Problem&, const core::DeviceInfo&, bool batch_invariant);

// A kernel of a given configuration, which must fit: for tests and for the search of constants.
std::unique_ptr<const plan::Kernel> sm80_kernel(const core::Problem&, const core::DeviceInfo&,
                                                const Sm80Config&);

std::string describe(const Sm80Plan& plan, const core::Problem& problem);
std::string text(const Sm80Config& config);

}  // namespace tconv::cuda
