// The plan of cuda.sm90.blocked (blocked.hpp): which tiles, how x is blocked, and the cost model that
// chooses. Pure functions; no CUDA here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/host/transposed_form.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/blocked.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {

struct Sm90BlockedPlan {
  TransposedForm form;
  Sm90Plan main;                     // of the form; blocks is 0 where none fits
  Sm90RawSource raw = {};            // without maps; where config.turned: then there is no pass
  Sm90BlockingParams blocking = {};  // without pointers
  int64_t blocking_blocks = 0;       // of threads
  int64_t bytes = 0;                 // of all channel blocks, with `slack` units before and behind them
  int64_t tail_bytes = 0;            // of those of tails, where scaled
  int64_t slack = 0;                 // that copies of columns which are no outputs may reach
  double blocking_ms = 0;
  Sm90BlockedSeen seen = {};  // without pointers; where config.scaled: then a look comes before the pass
  int64_t scales = 0, part_units = 0;
  int blocks_of_sm = 1;  // that share its shared memory

  double total_ms() const { return main.cost.total; }  // with the pass
};

// The cheapest plan, or that of a given tile, split and fold.
Sm90BlockedPlan sm90_blocked_plan(const core::Problem& problem, const core::DeviceInfo& device);
Sm90BlockedPlan sm90_blocked_plan_of(const core::Problem& problem, const core::DeviceInfo& device,
                                     const Sm90Config& config);

// Whether it can take a problem, if its stages fit: plans, and bounds of them, are for such problems alone.
bool sm90_blocked_takes(const core::Problem& problem, const core::DeviceInfo& device);

// What total_ms() of no plan of a problem is below: with a pass over x, and without; 0: there
// is none.
struct Sm90BlockedLeast {
  double passed_ms = 0, turned_ms = 0;
};
Sm90BlockedLeast sm90_blocked_least(const core::Problem& problem, const core::DeviceInfo& device);

// Elements of what becomes channel blocks: of x, or of dy.
int64_t sm90_blocked_input(const core::Problem& asked);

// The predicted time of all launches, and the milliseconds of the pass alone (blocked_cost.cpp).
Sm90Cost sm90_blocked_cost(const Sm90BlockedPlan& plan, const core::DeviceInfo& device);
double sm90_blocking_ms(const Sm90BlockedPlan& plan, const core::Problem& asked,
                        const core::DeviceInfo& device);
// What raw weights take in addition; scaled: in float16.
double sm90_blocked_pack_ms(const core::Problem& asked, bool scaled);

// blocked_main_plan.cpp: columns, stages and places of the main kernel, once sm90_laid_out() has set the
// rest; how it stores.
void sm90_set_blocked_main(Sm90BlockedPlan& plan, const core::DeviceInfo& device);
Sm90Storing sm90_storing_of(Arithmetic mode, const Sm90Config& config);

// scaled_plan.cpp: what the look and the main kernel must know of a plan that is scaled. Its look leaves
// `shares` of each scale; its counters and exponents take so many bytes, in the order of Sm90BlockedSeen.
void sm90_set_seen(Sm90BlockedPlan& plan, const core::DeviceInfo& device);
int64_t sm90_seen_bytes(const Sm90BlockedPlan& plan);
Sm90BlockedSeen sm90_seen_at(const Sm90BlockedPlan& plan, std::byte* at);
Sm90BlockedLookParams sm90_look_params(const Sm90BlockedPlan& plan, const void* x);
Sm90LookWay sm90_look_way(const Sm90BlockedLookParams& look);

// turned_plan.cpp. Units of 8 channels in a slab.
int sm90_slab_units(const Sm90BlockedPlan& plan);
// Whether tensor copies can bring rows to be turned into the plan's channel blocks; what the
// main kernel then must know of x as it lies in memory.
bool sm90_turns(const Sm90BlockedPlan& plan);
void sm90_set_turned(Sm90BlockedPlan& plan, const core::Problem& asked);
// Boxes of raw rows, and turned stages; stages at least; places of the ring of raw rows.
void sm90_set_raw(Sm90BlockedPlan& plan);
int sm90_turned_least_stages(const Sm90BlockedPlan& plan);
void sm90_set_raw_places(Sm90BlockedPlan& plan);
// Makes places smaller, if they can be: a warp turns fewer boxes at once.
bool sm90_shrink_raw_places(Sm90BlockedPlan& plan);
inline constexpr int kSm90BarrierBytes = 16;  // of the two barriers of a place in a ring

// Whether there is a kernel for a mode and a configuration: ieee is always scaled, and its sums take the
// registers of 256 columns.
bool sm90_blocks(Arithmetic mode, const Sm90Config& config);

// log2 of the words that the pass can load at once: phases that are neighbours, on boundaries of as many
// words.
int blocked_words(const Sm90BlockingParams& blocking, std::size_t element);

// A kernel of a given configuration, which must fit: for tests and for the search of constants.
std::unique_ptr<const plan::Kernel> sm90_blocked_kernel(const core::Problem&, const core::DeviceInfo&,
                                                        const Sm90Config&);

std::string describe(const Sm90BlockedPlan& plan);
std::vector<plan::StageLine> stages(const Sm90BlockedPlan& plan, const core::Problem& asked);

}  // namespace tconv::cuda
