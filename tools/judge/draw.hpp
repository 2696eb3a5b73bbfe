// Random problems: valid ones with all features, and invalid ones that break one rule.
#pragma once

#include <optional>
#include <string>

#include "core/problem.hpp"
#include "judge/rng.hpp"

namespace tconv::judge {

struct DrawOptions {
  bool gradients = true;                          // some problems are gradients
  std::optional<core::Operation> operation = {};  // of every problem
  bool tf32 = true;                               // some float32 problems permit tf32
  int64_t typical = 300'000;  // products of a usual problem; one in forty has up to 40 times as many
  bool far = false;           // one problem in forty is of draw_far
};

core::Problem draw_valid(Rng& rng, const DrawOptions& options = {});

// Valid, with small tensors: strides, dilations and paddings of up to 63 bits that leave short outputs.
core::Problem draw_far(Rng& rng, const DrawOptions& options = {});

// For plans only, and often invalid: any size may be large, so the tensors need not fit in any memory.
core::Problem draw_vast(Rng& rng);

struct Invalid {
  core::Problem problem;
  std::string argument;  // what the refusal must name
};
Invalid draw_invalid(Rng& rng);

}  // namespace tconv::judge
