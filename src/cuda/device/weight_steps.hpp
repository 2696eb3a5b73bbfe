// Where a kernel of the transposed product finds a weight of the problem that the caller asked for, which may
// be a strided product in its transposed form (cuda/host/transposed_form.hpp).
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"

namespace tconv::cuda {

// The order of the form's input channels where it is not the usual one. They are units of 8 channels of x at
// one phase; the phases of a channel block follow each other.
//
// Where rows of x become channel blocks in shared memory (sm90/turned_stages.cuh), rows of x that lie
// 1 << log_classes rows apart begin equally far behind 16 bytes, so a block has such rows. Where a slab has
// one phase (sm90/blocked.hpp), 1 << log_run blocks follow each other at each phase.
struct UnitOrder {
  int32_t channels;     // of a group of x; 0: channels are in their usual order
  int32_t log_classes;  // 1, 2, 4 or 8 blocks take rows in turn
  int32_t log_run = 0;

#ifdef __CUDACC__
  struct Place {
    int block, phase;
  };
  __device__ int run(int unit) const {
    return unit >> log_run;
  }
  // of_phases: run(unit) / phases.
  __device__ Place place(int unit, int phases, int of_phases) const {
    return {(of_phases << log_run) + (unit & ((1 << log_run) - 1)), run(unit) - of_phases * phases};
  }
  // Channel e of 8 of a block. It may be one that does not exist.
  __device__ int channel(int block, int e) const {
    return (block >> log_classes << (log_classes + 3)) + (e << log_classes) +
           (block & ((1 << log_classes) - 1));
  }
#endif
};

// Elements from one group, from one input channel and from one output channel to the next; and the index k
// that a tap of the form has: first + phase + step * tap, for input channels that are pairs (channel,
// phase), phase fastest.
struct WeightSteps {
  int64_t group, cin, cout;
  int32_t k, first, step, phases;
  Divisor phases_div;
  UnitOrder units = {};

#ifdef __CUDACC__
  __device__ UnitOrder::Place place_of_unit(int unit) const {
    return units.place(unit, phases,
                       static_cast<int>(phases_div.divide(static_cast<uint32_t>(units.run(unit)))));
  }
  // -1: there is no such tap or no such channel. Units: whether channels may be in units.
  template <bool Units = false>
  __device__ int64_t place(int64_t g, int ci, int64_t co, int tap) const {
    int channel, phase;
    if (Units && units.channels > 0) {
      const auto [block, of_block] = place_of_unit(ci / 8);
      phase = of_block;
      channel = units.channel(block, ci % 8);
      if (channel >= units.channels) return -1;
    } else {
      channel = static_cast<int>(phases_div.divide(static_cast<uint32_t>(ci)));
      phase = ci - channel * phases;
    }
    const int at = first + phase + step * tap;
    return at < k ? g * group + channel * cin + co * cout + at : -1;
  }
#endif
};

// What the positions of planes are (cuda/device/planes.hpp), for sums that ask which products exist. There
// are no planes if phases is 0.
struct DeepTaps {
  int32_t phases, stride, dilation;
  int32_t k, first, step;  // as in WeightSteps
  int64_t padding, length;
  bool ragged;  // some phases lack a tap
  UnitOrder units = {};

#ifdef __CUDACC__
  // Which element of x a product reads where channels are in units: a channel of the group, and a position.
  struct Element {
    int channel;
    int64_t position;
    bool there;
  };
  __device__ Element element(int ci, int tap, int64_t position) const {
    const int unit = ci / 8;
    const auto [block, phase] = units.place(unit, phases, units.run(unit) / phases);
    const int channel = units.channel(block, ci % 8);
    const int64_t o = position * stride + int64_t{phase} * dilation - padding;
    return {channel, o, channel < units.channels && first + phase + step * tap < k && o >= 0 && o < length};
  }
  // The same in any order of channels, if there are phases.
  __device__ Element element_of_phases(int ci, int tap, int64_t position) const {
    if (units.channels > 0) return element(ci, tap, position);
    const int phase = ci % phases;
    const int64_t o = position * stride + int64_t{phase} * dilation - padding;
    return {ci / phases, o, first + phase + step * tap < k && o >= 0 && o < length};
  }
  __device__ bool has(int ci, int tap, int64_t position) const {
    return phases == 0 || element_of_phases(ci, tap, position).there;
  }
#endif
};

}  // namespace tconv::cuda
