// What `tconv plan` says of cuda.sm90.blocked.
#include <cstdio>

#include "cuda/host/phases.hpp"
#include "cuda/sm90/blocked_plan.hpp"

namespace tconv::cuda {

using core::Problem;

std::string describe(const Sm90BlockedPlan& plan) {
  if (plan.main.config.turned) {
    return "x turned into channel blocks in shared memory; " + describe(plan.main, plan.form.product);
  }
  const char* launches = "pass";
  if (plan.main.config.scaled) launches = "look and a pass";
  if (plan.main.config.sampled) launches = "look at a sample and a pass";
  char text[160];
  std::snprintf(text, sizeof text, "x in channel blocks of %.1f MB, by a %s of %.4f ms; ",
                static_cast<double>(plan.bytes) * 1e-6, launches, plan.blocking_ms);
  std::string out = text;
  if (plan.main.config.phased) {
    const Sm90GatherSource& k = plan.main.params.gather;
    out += "slabs of one phase, " + std::to_string(k.phases - k.whole) + " of " + std::to_string(k.phases) +
           " without the first tap; ";
  }
  return out + describe(plan.main, plan.form.product);
}

namespace {

std::string operand_words(const Sm90Plan& main) {
  if (main.config.turned) return "turned, in shared memory";
  if (!main.config.scaled) return "by the pass, in shared memory";
  return scaled_words(main.mode) + " by the pass, in shared memory; a scale for each group and " +
         (main.params.columns.folded ? "all samples" : "sample") +
         (main.config.sampled ? ", found by a look at a sixteenth of x, and by another pass where that misses"
                              : ", found by a look over x") +
         "; a second round of tiles over numbers that spread further than 2^28"
         "; sums beyond that again from x and weights as they are";
}

}  // namespace

std::vector<plan::StageLine> stages(const Sm90BlockedPlan& plan, const Problem& asked) {
  const Sm90GatherSource& s = plan.main.params.gather;
  std::vector<plan::StageLine> lines = stages(plan.main, plan.form.product);
  const int words = 1 << blocked_words(plan.blocking, size_of(asked.dtype));
  for (plan::StageLine& line : lines) {
    if (line.stage == std::string("source")) {
      if (plan.main.config.turned) {
        line.words = "raw rows by tensor copies in " + std::to_string(1 << plan.raw.log_classes) +
                     " row classes, " + std::to_string(plan.raw.boxes) + " boxes of 8 channels by " +
                     std::to_string(plan.raw.box) + " positions, a ring of " +
                     std::to_string(plan.raw.places) + " places of " + std::to_string(plan.raw.place_bytes) +
                     " bytes, turned by " + std::to_string(sm90_turners(sm90_tile(plan.main.config).n)) +
                     " warps of a block: " + std::to_string(s.stages) + " stages of " +
                     std::to_string(s.stage_bytes) + " bytes";
        continue;
      }
      line.words = "channel blocks, made by a pass that loads " + std::to_string(words) +
                   " words at once, by bulk copies: " + std::to_string(s.stages) + " stages of " +
                   std::to_string(s.stage_bytes) + " bytes, " + std::to_string(s.width) +
                   " positions, halo " + std::to_string(s.halo) + ", " + std::to_string(s.tap_group) +
                   " taps a stage";
    }
    if (line.stage == std::string("operand")) line.words = operand_words(plan.main);
  }
  return lines;
}

}  // namespace tconv::cuda
