// Part of the plan of cuda.sm90.weight_blocked: the pass over x and dy, the look before it, and chunks.
#include <algorithm>
#include <limits>

#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/weight.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// One operand's rows for a chunk of this many positions after `front` others.
int64_t set_operand(Sm90WeightPassOperand& o, const Sm90WeightBlockedLayout& layout, int64_t planes,
                    int64_t positions, int front, int64_t groups) {
  o.rows = static_cast<int>(ceil_div(planes, layout.unit_planes));
  // Rows begin on whole lines: if they begin on 16 bytes only, tensor copies take 1.7 times as long.
  o.row_units = round_up<int64_t>(ceil_div(front + positions, layout.unit_positions), 8);
  o.part_units = groups * o.rows * o.row_units;
  const int64_t thread_rows = layout.unit_planes == 1 ? 4 : 1, thread_units = layout.unit_planes == 1 ? 1 : 2;
  o.row_tiles = static_cast<int>(ceil_div(o.row_units, thread_units * kSm90WeightPassThreads));
  o.blocks = groups * o.row_tiles * ceil_div(o.rows, thread_rows);
  return round_up<int64_t>(o.part_units * layout.parts * 16, 256);
}

// One operand's part of the look: some 2,048 blocks, each with at least 1,024 elements of a channel if it has
// so many.
bool set_look(Sm90WeightLookOperand& look, Sm90WeightPassOperand& o, int64_t channels, int64_t samples,
              const Problem& p) {
  constexpr int64_t kLeast = 1024, kBlocks = 2048;
  const int64_t elements = samples * o.length;
  if (elements >= int64_t{1} << 31 || o.length == 0 || channels >= 1 << 26) return false;
  look.shares = static_cast<int>(
      std::clamp<int64_t>(std::min(elements / kLeast, kBlocks / channels), 1, kSm90WeightMostShares));
  look.blocks = channels * look.shares;
  look.from_step[0] = o.from_step[0], look.from_step[1] = o.from_step[1];
  look.position_step = o.position_step, look.length = o.length;
  look.by_length = Divisor::of(static_cast<uint32_t>(o.length));
  look.rows = static_cast<int>(p.groups * o.rows);
  o.shares = look.shares;
  return p.groups * o.rows < int64_t{1} << 28;
}

int64_t most_bytes(const Sm90WeightLookOperand& o) {
  return round_up<int64_t>(o.blocks * 4, 256);
}
int64_t seen_bytes(const Sm90WeightLookOperand& o) {
  return most_bytes(o) + round_up<int64_t>(int64_t{o.rows} * 9 * 4, 256);
}

bool set_look(Sm90WeightBlockedPlan& plan, const Problem& p) {
  Sm90WeightLookParams& look = plan.look;
  look.samples = static_cast<int>(p.n);
  if (!set_look(look.x, plan.pass.x, p.cin, p.n, p) || !set_look(look.y, plan.pass.y, p.cout, p.n, p))
    return false;
  plan.params.x_rows = plan.pass.x.rows, plan.params.y_rows = plan.pass.y.rows;
  plan.seen_bytes = seen_bytes(look.x) + seen_bytes(look.y);
  return look.x.blocks + look.y.blocks < int64_t{1} << 31;
}

// Whether kSm90WeightTogether phases lie side by side, on multiples of as many elements, if the operand
// begins on one.
bool phases_lie_together(const Sm90WeightPassOperand& o) {
  constexpr int kTogether = kSm90WeightTogether;
  return o.dilation == 1 && o.position_step == 1 && (o.from_step[0] | o.from_step[1]) % kTogether == 0 &&
         (o.stride | o.padding | o.length | o.planes | o.first_planes) % kTogether == 0;
}

}  // namespace

bool sm90_set_weight_pass(Sm90WeightBlockedPlan& plan, const Problem& p) {
  constexpr int64_t kMost = int64_t{1} << 30;  // bytes
  Sm90WeightBlockedParams& k = plan.params;
  const Sm90WeightBlockedLayout layout = plan.layout();
  const int64_t front = round_up<int64_t>(int64_t{k.taps - 1} * k.shift, 8);
  Sm90WeightPassParams& pass = plan.pass;
  pass.pitch = static_cast<int>(k.pitch), pass.samples = static_cast<int>(k.samples);
  pass.by_pitch = Divisor::of(static_cast<uint32_t>(k.pitch));
  pass.x = {}, pass.y = {};
  auto narrow = [](int64_t v) { return static_cast<int>(v); };  // all below 2^31: set_sizes
  pass.x.stride = 1, pass.x.dilation = narrow(-k.step), pass.x.length = narrow(k.l);
  pass.x.channels = k.cin_group, pass.x.planes = pass.x.first_planes = k.x_planes;
  pass.x.first_run = std::numeric_limits<int32_t>::max();
  pass.y.stride = narrow(k.stride), pass.y.dilation = narrow(k.dilation);
  pass.y.padding = narrow(k.padding), pass.y.length = narrow(k.lout);
  pass.y.channels = k.cout_group, pass.y.planes = k.y_planes, pass.y.first_planes = k.in_columns.first;
  pass.y.first_run = k.in_columns.first_run;
  for (std::size_t i = 0; i < 2; ++i) {
    pass.x.from_step[i] = k.x_step[i];
    pass.y.from_step[i] = k.y_step[i];
  }
  pass.x.position_step = narrow(k.x_step[2]), pass.y.position_step = narrow(k.y_step[2]);
  pass.y.together = phases_lie_together(pass.y);
  const int64_t planes = p.groups * (int64_t{k.cin_group} * k.x_planes + k.columns);
  const int64_t each = planes * layout.parts * 16 / (layout.unit_planes * layout.unit_positions);
  int64_t chunk = plan.config.chunk_positions;
  if (chunk == 0) {
    // As few as fit, of equal lengths.
    const int64_t chunks = ceil_div(plan.positions, std::max<int64_t>(1, kMost / each));
    chunk = ceil_div(plan.positions, std::max<int64_t>(1, chunks));
  }
  chunk = std::max<int64_t>(round_up<int64_t>(chunk, layout.positions), layout.positions);
  if (front > 4 * chunk) return false;
  plan.chunks = std::max(1, static_cast<int>(ceil_div(plan.positions, chunk)));
  k.front = static_cast<int>(front);
  k.chunk_positions = chunk;
  k.chunk_stages = static_cast<int>(chunk / layout.positions);
  const int64_t most = std::max<int64_t>(1, std::min(chunk, plan.positions));
  plan.x_bytes = set_operand(pass.x, layout, int64_t{k.cin_group} * k.x_planes, most, k.front, p.groups);
  plan.y_bytes = set_operand(pass.y, layout, k.columns, most, 0, p.groups);
  // Behind a short pass calls then take 0.98 times as long (0.94 to 1.01). A main kernel that waits for a
  // longer one hinders it, up to 1.17 times, and so does a pass that waits for the look (H100).
  constexpr int64_t kShort = 8'000'000;
  pass.lets_begin = plan.x_bytes + plan.y_bytes < kShort;
  if (plan.config.scaled && (plan.positions == 0 || !set_look(plan, p))) return false;
  set_chunk(plan, 0);
  const int steps = layout.row_bytes() / layout.parts / kWeightStepBytes;
  k.chain = kSm90WeightChain / steps;
  return pass.x.blocks + pass.y.blocks < int64_t{1} << 31;
}

void set_chunk(Sm90WeightBlockedPlan& plan, int chunk) {
  Sm90WeightBlockedParams& k = plan.params;
  const int64_t before = chunk * k.chunk_positions;
  const int64_t here = std::min(k.chunk_positions, plan.positions - before);
  k.chunk = chunk, k.chunks = plan.chunks;
  k.stages = static_cast<int>(ceil_div(std::max<int64_t>(0, here), plan.layout().positions));
  plan.pass.x.first = static_cast<int>(before - k.front);
  plan.pass.y.first = static_cast<int>(before);
}

void set_seen(Sm90WeightBlockedPlan& plan, std::byte* at) {
  auto place = [&](Sm90WeightLookOperand& look, Sm90WeightPassOperand& pass, Sm90WeightSeen& main) {
    std::byte* const planes = at + most_bytes(look);
    pass.seen = {reinterpret_cast<uint32_t*>(at), reinterpret_cast<int32_t*>(planes),
                 reinterpret_cast<uint32_t*>(planes + int64_t{look.rows} * 8 * 4)};
    look.seen = main = pass.seen;
    at += seen_bytes(look);
  };
  place(plan.look.x, plan.pass.x, plan.params.x_seen);
  place(plan.look.y, plan.pass.y, plan.params.y_seen);
}

}  // namespace tconv::cuda
