// Large forward problems at random: the space that tensor-core kernels are for. Any 16 or more channels a
// group, ragged ones too, up to 64 taps a residue, stride 1 to 16, dilation, padding, output_padding, groups,
// odd lengths, bias.
#pragma once

#include <optional>
#include <vector>

#include "core/problem.hpp"
#include "judge/rng.hpp"
#include "modes.hpp"

namespace tconv::cli {

struct LargeSpace {
  std::vector<Mode> modes;     // drawn from
  double least_bytes = 100e6;  // of x and y together
  double most_bytes = 1500e6;
  double most_flops = 2e12;  // two a product of the polyphase form
};

// Nothing where no problem of the space was found in many draws.
std::optional<core::Problem> draw_large(judge::Rng& rng, const LargeSpace& space);

}  // namespace tconv::cli
