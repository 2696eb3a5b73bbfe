// Large transposed convolutions at random, as tensor-core kernels are made for them. Any 16 or more channels
// a group, ragged ones too, up to 64 taps a residue, stride 1 to 16, dilation, padding, output_padding,
// groups, odd lengths, bias.
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
  double most_flops = 2e12;  // two for each product of the polyphase form
};

// Nothing if many draws found no such problem.
std::optional<core::Problem> draw_large(judge::Rng& rng, const LargeSpace& space);

}  // namespace tconv::cli
