// Random problems: valid ones of every feature, and invalid ones that break one rule.
#pragma once

#include <string>

#include "core/problem.hpp"
#include "judge/rng.hpp"

namespace tconv::judge {

struct DrawOptions {
  bool gradients = true;      // some problems are gradients
  bool tf32 = true;           // some float32 problems permit tf32
  int64_t typical = 300'000;  // products of a usual problem; one in forty has up to 40 times as many
};

core::Problem draw_valid(Rng& rng, const DrawOptions& options = {});

struct Invalid {
  core::Problem problem;
  std::string argument;  // what the refusal must name
};
Invalid draw_invalid(Rng& rng);

}  // namespace tconv::judge
