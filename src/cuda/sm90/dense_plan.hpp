// The configuration of cuda.sm90.dense and the cost model that chooses it. Pure functions of problem, device
// and options; no CUDA here.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/problem.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/sm90/dense.hpp"

namespace tconv::cuda {

struct Sm90Config {
  int tile = 0;  // index into sm90_tiles()
  int splits = 1;
  int walkers = 0;        // blocks along the columns; 0: to be chosen
  int stages = 0;         // of x; 0: as many as fit
  bool resident = false;  // weights, if x comes by tensor copies
  bool scaled = false;    // float32 as scaled float16, ieee in two parts; what exceeds it is computed again
  bool drawn = false;  // tiles from counters, if weights are resident; the plan sets it if x and y are large
  bool folded = false;
  bool aligned = false;  // columns begin at a multiple of 16 positions of x
  bool turned = false;   // for cuda.sm90.blocked: channel blocks are made in shared memory
  bool phased = false;   // for cuda.sm90.blocked: slabs have one phase each, and lack the taps that it lacks
  bool sampled = false;  // for cuda.sm90.blocked, if scaled: by a sample of x; the plan sets it if x is large
  bool operator==(const Sm90Config&) const = default;
};

// Predicted milliseconds: each unit's own time over the whole problem, and the whole.
struct Sm90Cost {
  double tensor = 0, load = 0, l2 = 0, store = 0, dram = 0, launch = 0, total = 0;
  double sums = 0;  // to write and read the partial sums that more than 64 phases need
};

// What a plan tells the stages, for either way of x; operands and marks are added at launch.
struct Sm90StageParams {
  Sm90Sizes sizes;
  Sm90Columns columns;
  Sm90Grid grid;
  Sm90Weights weights;
  Sm90GatherSource gather;  // where x is gathered
  Sm90PassWriter pass;
  Sm90TmaSource tma;  // where it comes by tensor copies
  Sm90WarpgroupTiles tiles;
  Sm90TileWriter writer;
  int barriers;
};
Sm90GatherParams gather_params(const Sm90StageParams&);
Sm90TmaParams tma_params(const Sm90StageParams&);

struct Sm90Plan {
  Phases phases;
  Arithmetic mode;
  Sm90Config config;
  Sm90Cost cost;
  Sm90StageParams params;
  std::size_t shared_bytes = 0;
  int64_t blocks = 0;                       // 0: does not fit
  int64_t packed_bytes = 0, packed_at = 0;  // of all layouts of the mode; where this one begins
  int64_t partial_bytes = 0, tile_marks_bytes = 0, counter_bytes = 0;
};

// Whether a mode also has a layout of scaled float16.
inline bool sm90_scales(Arithmetic mode) {
  return mode == Arithmetic::tf32 || mode == Arithmetic::ieee;
}

std::span<const Sm90Tile> sm90_tiles();
const Sm90Tile& sm90_tile(const Sm90Config&);
bool sm90_has(Arithmetic mode, bool scaled, int tile);

// The packed weights of one row block in one layout, and the place of what follows them.
struct Sm90Packing {
  int64_t row_block_bytes, scales_at, marks_at, looked_at, bytes;
};
Sm90Packing sm90_packing(const core::Problem&, Arithmetic mode, bool scaled);

// Row blocks of a group.
int64_t sm90_row_blocks(const core::Problem&, const Phases&);

// The plan of one configuration without its cost, and with no second launch; for kernels of cuda.sm90.dense,
// or for those that store so.
Sm90Plan sm90_laid_out(const core::Problem&, const core::DeviceInfo&, const Sm90Config&,
                       const Sm90Storing* storing = nullptr);
// The whole plan of one configuration, with its predicted cost.
Sm90Plan sm90_plan_of(const core::Problem&, const core::DeviceInfo&, const Sm90Config&);
// The cheapest one; blocks is 0 if none fits. batch_invariant: the split does not depend on n.
Sm90Plan sm90_plan(const core::Problem&, const core::DeviceInfo&, bool batch_invariant);
// Whether a plan's partial sums take no more memory than they may.
bool sm90_partials_fit(const Sm90Plan&, bool forced);
// Whether sm90_plan finds a plan; answered without its search, if possible.
bool sm90_fits(const core::Problem&, const core::DeviceInfo&, bool batch_invariant);
// For a plan with scaled float16: the same tiles with operands in tf32, x gathered.
Sm90Plan sm90_second(const Sm90Plan&, const core::Problem&, const core::DeviceInfo&);
// For a plan with scaled float16: Sm90TileMarks::least_sum.
float sm90_least_sum(const Sm90Plan&);
// For a plan with partial sums; without pointers.
PhaseSumParams sm90_sum_params(const Sm90Plan&, const core::Problem&);

// Packs the weights of a problem's form for a plan with these rows and depth: one layout or, for float32, the
// scaled one too, or alone. others_beside: the next launch may run beside. only_if: where one of so many
// marks of tiles is set; null: in any case.
enum class Sm90Packs { plain, both, scaled };
class Launcher;
struct TransposedForm;
core::Status sm90_pack(const Launcher&, const Sm90Plan&, const TransposedForm&, const core::DeviceInfo&,
                       const void* weight, void* packed, Sm90Packs what, bool others_beside,
                       const int* only_if = nullptr, int64_t marks = 0);

// A kernel of a given configuration, which must fit: for tests and for the search of constants. kernels:
// other sets of stages, or null.
std::unique_ptr<const plan::Kernel> sm90_kernel(const core::Problem&, const core::DeviceInfo&,
                                                const Sm90Config&, const Sm90Kernels* kernels = nullptr);

// gather_plan.cpp: places in shared memory for the stages of a plan; sets shared_bytes to 0 if they do not
// fit.
void sm90_set_gather(Sm90Plan& plan, const Sm90Tile& tile, const core::DeviceInfo& device,
                     const Sm90Storing& storing);
// Slabs that a block multiplies for a tile, at most.
int64_t sm90_block_slabs(const Sm90Grid&);
// Whether the warpgroups multiply by turns, once rings have their places: where these are enough for the
// stages and the weights of two tiles, or of one whose tails are multiplied too (blocked_scale.cuh), so that
// neither warpgroup waits for the other to release one. Otherwise they multiply side by side, and also store
// at the same time. Where stores bind, turns take 0.82 to 0.96 of the time (n1 ci8 co747 l63273 k7 s3 in bf16
// 226 -> 186 us, n5 ci18 co96 l241469 k19 s4 676 -> 578; H200).
void sm90_set_turns(Sm90Plan&, const Sm90Storing&);
// Elements from a tile's staged passes to the place of every other one; 0: they need no second place.
int sm90_second_place(const Sm90Plan&, const Sm90Tile&);
// Bytes of shared memory that the plan's writer stages in, once that is chosen. element: bytes of an output.
int64_t sm90_staging_bytes(const Sm90StageParams&, int element);
// Calls set_places(), which finds the places of all rings in shared memory, with two places for passes, where
// they are stored by bulk copies that the next pass need not wait for, or one.
template <class SetPlaces>
void sm90_set_passes(Sm90Plan& plan, const Sm90Tile& tile, const SetPlaces& set_places) {
  constexpr int kEnoughStages = 4;  // of x, beside two places; a guess: other numbers were not measured
  Sm90StageParams& k = plan.params;
  k.pass.second = sm90_second_place(plan, tile);
  set_places();
  if (k.pass.second == 0 || (plan.shared_bytes > 0 && k.gather.stages >= kEnoughStages)) return;
  k.pass.second = 0;
  set_places();
}
// tma_plan.cpp: whether tensor copies can bring rows of x at all.
bool sm90_copies_rows(const Sm90Plan& plan, const core::Problem& problem);
// Whether tensor copies can bring the plan's x to the stages of a warpgroup; also finds their places.
bool sm90_tma_takes(const Sm90Plan& plan, const core::Problem& problem);
void sm90_set_tma(Sm90Plan& plan, const Sm90Tile& tile, int64_t limit);
Sm90WarpgroupTile sm90_warpgroup_tile(const Sm90Plan& plan, const Sm90Tile& tile);

// report.cpp: the plan in words, and who holds an output that has a phase. If tiles are drawn from a counter,
// as if the first warpgroup of the first block had drawn all of them.
Holder holder_of(const Sm90Plan& plan, const OutputPlace& place);
std::string where(const Sm90Plan& plan, const core::Problem& problem, int64_t element);
std::vector<plan::StageLine> stages(const Sm90Plan& plan, const core::Problem& problem);
std::string describe(const Sm90Plan& plan, const core::Problem& problem);
std::string text(const Sm90Config& config);
std::string scaled_words(Arithmetic mode);  // of operands that are scaled

}  // namespace tconv::cuda
