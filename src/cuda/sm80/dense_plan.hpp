// The configuration of cuda.sm80.dense and the cost model that chooses it. Pure functions of problem, device
// and options; no CUDA here.
#pragma once

#include <string>

#include "core/problem.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/dense.hpp"
#include "cuda/sm80/tiles.hpp"

namespace tconv::cuda {

// Walkers of a configuration, if its plan is to choose: as many as the SMs hold at once, or a block a tile.
inline constexpr int kFillSms = 0, kOneATile = -1;

struct Sm80Config {
  int tile = 0;  // index into kSm80Tiles
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
  Arithmetic mode;
  Sm80Config config;
  Sm80Cost cost;
  Sm80Params params;  // without pointers
  std::size_t shared_bytes = 0;
  int64_t blocks = 0;
  int64_t packed_bytes = 0, marks_at = 0, partial_bytes = 0;
  bool fits() const { return blocks > 0; }
};

// The packed weights of a row tile for one slab and tap.
constexpr int sm80_tile_bytes(const ArithmeticShape& shape) {
  return kSm80Steps * shape.parts * kSm80RowTileUnits * kSm80UnitBytes;
}

// The whole plan of one configuration, with its predicted cost.
Sm80Plan sm80_plan_of(const core::Problem&, const core::DeviceInfo&, const Sm80Config&);
// The most taps that a stage of this tile may hold.
int sm80_tap_group(const core::Problem&, int tile);
// For a plan with partial sums; without pointers.
PhaseSumParams sm80_sum_params(const Sm80Plan&, const core::Problem&);
// The cheapest one. batch_invariant: the split does not depend on n.
Sm80Plan sm80_plan(const core::Problem&, const core::DeviceInfo&, bool batch_invariant);

// Predicted milliseconds of a plan that fits.
Sm80Cost sm80_cost(const Sm80Plan&, const core::Problem&, const core::DeviceInfo&, int64_t resident_blocks);
// No plan with the tile, split and folding of this one is faster than this; nothing else of it must be set.
double sm80_least_ms(const Sm80Plan&, const core::Problem&, const core::DeviceInfo&);

// A kernel of a given configuration, which must fit: for tests and for the search of constants.
std::unique_ptr<const plan::Kernel> sm80_kernel(const core::Problem&, const core::DeviceInfo&,
                                                const Sm80Config&);

std::string describe(const Sm80Plan& plan, const core::Problem& problem);
std::string text(const Sm80Config& config);
std::vector<plan::StageLine> stages(const Sm80Plan& plan, const core::Problem& problem);
// Who holds an output that has a phase, and who makes an element of y, in words.
Holder holder_of(const Sm80Plan& plan, const OutputPlace& place);
std::string where(const Sm80Plan& plan, const core::Problem& problem, int64_t element);

}  // namespace tconv::cuda
