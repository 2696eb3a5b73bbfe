// Part of the plan of cuda.sm90.blocked: channel blocks made in shared memory (turned_stages.cuh).
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/cost.hpp"
#include "cuda/sm90/turned_pitch.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

constexpr int kEight = 8;       // channels of a unit
constexpr int kPiece = 32;      // positions that a warp turns at once
constexpr int kMostPieces = 7;  // of a tensor copy, which brings at most 256 positions

}  // namespace

int sm90_slab_units(const Sm90BlockedPlan& plan) {
  return sm90_layout(plan.main.mode, false).slab() / kEight;
}

bool sm90_turns(const Sm90BlockedPlan& plan) {
  const Sm90StageParams& k = plan.main.params;
  const DeepTaps& deep = plan.form.deep;
  // With one tap at stride 1 the warps that turn bind: n8 ci128 co128 l128000 k1 takes 191 us, with
  // cuda.sm90.dense 138.
  const bool enough_taps = plan.form.planes || plan.form.product.k > 1;
  // Several groups of taps take a chunk by turns, so it must then be one slab.
  const bool chunk_is_slab = sm90_slab_units(plan) % deep.phases == 0;
  return !plan.main.config.folded && enough_taps && (k.gather.tap_groups == 1 || chunk_is_slab);
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
  constexpr int kShareBytes = 12 << 10;
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
  const auto pieces = static_cast<int>(ceil_div(positions, kPiece));
  raw.boxes = static_cast<int>(ceil_div(pieces, kMostPieces));
  raw.step = static_cast<int>(ceil_div(pieces, raw.boxes)) * kPiece;
  raw.box = raw.step + (element == 2 ? kEight : 0);
  raw.box_bytes = raw.box * element * kEight;
  const auto shares = static_cast<int>(ceil_div(raw.boxes, std::max(1, kShareBytes / raw.box_bytes)));
  raw.share = static_cast<int>(ceil_div(raw.boxes, shares));
  raw.block_boxes = round_up(raw.boxes, raw.share);
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
  const int units = plan.raw.chunk_units, slab = sm90_slab_units(plan);
  const int slabs = units % slab == 0 ? units / slab : (units + slab - 2) / slab + 1;
  return std::max(2, slabs + 1);
}

void sm90_set_raw_places(Sm90BlockedPlan& plan) {
  // What memory delivers to an SM while a copy is on its way; its blocks share it.
  constexpr int kAhead = 56 << 10, kLeast = 2;
  Sm90RawSource& raw = plan.raw;
  const bool chunks = raw.blocks > 1;
  const int each = chunks ? 1 : sm90_turners(sm90_tile(plan.main.config).n);
  raw.place_bytes = (chunks ? raw.blocks * raw.boxes : raw.share) * raw.box_bytes;
  raw.places =
      each * std::max(kLeast, kAhead / plan.blocks_of_sm / (each * (raw.place_bytes + kSm90BarrierBytes)));
}

bool sm90_shrink_raw_places(Sm90BlockedPlan& plan) {
  Sm90RawSource& raw = plan.raw;
  if (raw.blocks > 1 || raw.share == 1) return false;
  raw.block_boxes = round_up(raw.boxes, --raw.share);
  return true;
}

}  // namespace tconv::cuda
