// Part of the plan of cuda.sm90.blocked: channel blocks made in shared memory (turned_stages.cuh).
#include <algorithm>
#include <limits>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/cost.hpp"
#include "cuda/sm90/turned_pitch.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

constexpr int kEight = 8;  // channels of a unit
constexpr int kPiece = kSm90TurnedPiece;

int turners_of(const Sm90BlockedPlan& plan) {
  return sm90_turners(sm90_tile(plan.main.config).n);
}

// How many pieces a box has: a tensor copy brings at most 256 positions.
constexpr int kLeastPieces = 3, kMostPieces = 7;

// About what a channel block takes: instructions of a box, with its copy if that is near the end of a row, of
// a piece, and of finding where a piece goes, once or for each box.
int instructions(int pieces, int boxes, bool repeats) {
  constexpr int kBox = 12, kPieceOfBox = 4, kTarget = 10;
  return boxes * (kBox + kPieceOfBox * pieces) + (repeats ? 1 : boxes) * kTarget * pieces;
}

// The boxes of a channel block that take the fewest instructions.
void set_boxes(Sm90RawSource& raw, int positions, int element) {
  const auto all = static_cast<int>(ceil_div(positions, kPiece));
  int least = std::numeric_limits<int>::max();
  for (int pieces = kLeastPieces; pieces <= kMostPieces; ++pieces) {
    const auto boxes = static_cast<int>(ceil_div(all, pieces));
    const bool repeats = pieces * kPiece % raw.stride == 0;
    const int takes = instructions(pieces, boxes, repeats);
    if (takes >= least) continue;
    least = takes;
    raw.pieces = pieces;
    raw.boxes = boxes;
    raw.box_columns = repeats ? pieces * kPiece / raw.stride : 0;
  }
  raw.step = raw.pieces * kPiece;
  raw.box = raw.step + (element == 2 ? kEight : 0);
  raw.box_bytes = raw.box * element * kEight;
}

void set_share(Sm90BlockedPlan& plan, int boxes) {
  Sm90RawSource& raw = plan.raw;
  raw.share = boxes;
  raw.items = raw.blocks > 1 ? raw.blocks : static_cast<int>(ceil_div(raw.boxes, boxes));
  raw.place_bytes = raw.share * raw.box_bytes;
  const int64_t last = plan.form.deep.length - ((raw.share - 1) * raw.step + raw.box);
  raw.inner = static_cast<int>(std::clamp<int64_t>(last, -1, std::numeric_limits<int>::max()));
}

}  // namespace

int sm90_slab_units(const Sm90BlockedPlan& plan) {
  return sm90_layout(plan.main.mode, false).slab() / kEight;
}

bool sm90_turns(const Sm90BlockedPlan& plan) {
  const Sm90StageParams& k = plan.main.params;
  const DeepTaps& deep = plan.form.deep;
  // Several groups of taps take a chunk by turns, so it must then be one slab.
  const bool chunk_is_slab = sm90_slab_units(plan) % deep.phases == 0;
  return !plan.main.config.folded && (k.gather.tap_groups == 1 || chunk_is_slab);
}

void sm90_set_turned(Sm90BlockedPlan& plan, const Problem& asked) {
  Sm90Sizes& sizes = plan.main.params.sizes;
  const auto steps = asked.operation == core::Operation::transposed ? asked.x_steps() : asked.y_steps();
  sizes.x_step[0] = steps[0];
  sizes.x_step[1] = steps[1];
  sizes.deep = plan.form.deep;
  sizes.ragged = sizes.ragged || plan.form.deep.ragged;
}

void sm90_set_raw(Sm90BlockedPlan& plan) {
  // Where several warps turn, strided n1 ci256 co2048 l117747 k8 s4 in bf16 takes 1.16 times as long with
  // shares of 12 KB, because a share costs a warp more than its boxes do. Where one does, strided n2 ci512
  // co256 l168337 k12 s6 takes 1.4 times as long with 20 KB, because fewer stages fit.
  const int share_bytes = (turners_of(plan) > 1 ? 20 : 12) << 10;
  Sm90StageParams& k = plan.main.params;
  const int element = sm90_layout(plan.main.mode, false).element, vector = 16 / element;
  const int slab = sm90_slab_units(plan);
  const DeepTaps& deep = plan.form.deep;
  Sm90RawSource& raw = plan.raw;
  raw.log_classes = deep.units.log_classes;
  raw.stride = deep.stride;
  raw.phases = deep.phases;
  raw.padding = static_cast<int>(deep.padding);
  raw.stride_div = Divisor::of(static_cast<uint32_t>(raw.stride));
  raw.blocks = raw.phases < slab && slab % raw.phases == 0 ? slab / raw.phases : 1;
  raw.chunk_units = raw.blocks * raw.phases;
  raw.columns = kPiece / raw.stride;
  raw.phases_over = kPiece % raw.stride;
  // A copy begins less than 16 bytes before the first column.
  const int positions = raw.stride * (k.gather.width - 1) + raw.phases + vector - 1;
  set_boxes(raw, positions, element);
  const int most = raw.blocks > 1 ? raw.boxes : std::max(1, share_bytes / raw.box_bytes);
  set_share(plan, static_cast<int>(ceil_div(raw.boxes, ceil_div(raw.boxes, most))));
  raw.front = static_cast<int>(ceil_div(vector - 1, raw.stride));
  k.gather.halo += raw.front;
  const int columns = raw.front + static_cast<int>(ceil_div(raw.boxes * raw.step, raw.stride));
  if (element == 2) {
    k.gather.pitch = raw.unit_pitch = turned_pitch(columns, raw.stride);
    k.gather.step_pitch = 2 * k.gather.pitch;
  } else {
    // 8 lanes store the first halves of units together, then the second ones, so halves may lie anywhere.
    k.gather.pitch = columns;
    k.gather.step_pitch = raw.unit_pitch = turned_pitch(2 * columns, raw.stride);
  }
  // No more: then the units of all stages are equally far apart, for a channel block has units of several.
  k.gather.stage_bytes = slab * raw.unit_pitch * 16;
}

int sm90_turned_least_stages(const Sm90BlockedPlan& plan) {
  const Sm90RawSource& raw = plan.raw;
  const int units = raw.chunk_units, slab = sm90_slab_units(plan);
  const int parts = units % slab == 0 ? 0 : 1;  // of slabs: at a tile's end, one more
  const int slabs = static_cast<int>(ceil_div(units - parts, slab)) + parts;
  // A warp that turns comes to a stage at most one phase of its barrier late, if between the ends of a chunk
  // and of the next one that it turns lie no more slabs than there are stages.
  const auto chunks = static_cast<int>(ceil_div(turners_of(plan), raw.items));
  return std::max({2, slabs + 1, static_cast<int>(ceil_div(chunks * units, slab)) + parts});
}

void sm90_set_raw_places(Sm90BlockedPlan& plan) {
  // What memory delivers to an SM while a copy is on its way; its blocks share it. With 56 KB n128 ci384
  // co192 l5567 k3 s1 in bf16 takes 1.1 times as long, for there is a stage less.
  constexpr int kAhead = 43 << 10, kLeast = 2;
  Sm90RawSource& raw = plan.raw;
  raw.places = std::max(
      {kLeast, turners_of(plan), static_cast<int>(ceil_div(kAhead / plan.blocks_of_sm, raw.place_bytes))});
}

bool sm90_shrink_raw_places(Sm90BlockedPlan& plan) {
  Sm90RawSource& raw = plan.raw;
  if (raw.blocks > 1 || raw.share == 1) return false;
  set_share(plan, raw.share - 1);
  return true;
}

}  // namespace tconv::cuda
