// Rows of dy split by phase, as both gradients read them. Tap k of position i of x meets
//
//   dy[co, stride*i - padding + k*dilation] = dy[co, stride*(i + shift(k)) + phase(k)]
//
// so once a row is split by phase, every tap is a shifted, contiguous line. Taps stride/g apart,
// g = gcd(stride, dilation), share a phase; there are `phases` = min(K, stride/g) of them.
//
//   shared    [co][phase][columns + halo]   a tap is a shifted load of its phase's line
//   expanded  [co][tap][columns]            if shifts are too wide for lines, or if the gaps between
//                                           samples cost more columns than shared lines save loads
//   tiled     [tile][co][48 columns]        if there is one tap and no padding: a tile reads few pages, in
//                                           order
//   columns   (n, i): samples one after the other, `period` columns each; those beyond l are unused
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/problem.hpp"

namespace tconv::cpu::strided {

inline constexpr int64_t kPanelElements = 96 * 1024;  // 384 KiB of float: half of a 1 MiB L2
inline constexpr int64_t kMaxTapBlock = 1024;         // up to which all taps are one depth block
inline constexpr int64_t kMostTaps = 1 << 16;         // that a plan's tables hold

struct TapPlace {
  int64_t phase, shift;  // element stride*(i + shift) + phase of a row
  int64_t end;           // i + shift that exist: [0, end)
  // Positions i at which this line and the following ones that fill 16 bytes all lie inside the row.
  int64_t whole_begin, whole_end;

  int64_t at(int64_t stride) const { return stride * shift + phase; }  // element of position 0
};

struct SplitPanel {
  int64_t n = 0, l = 0, lout = 0, stride = 1;
  int64_t sample_step = 0;                   // elements of dy from a sample to the next,
  int64_t channel_step = 0, place_step = 1;  // from a channel, and from a position
  int64_t tap_block = 1;                     // taps of a depth block
  bool adjacent = false;                     // each line begins one element of dy after the one before
  bool expanded = false;
  bool tiled = false;
  bool from_memory = false;      // dy is larger than caches: it is fetched ahead
  int64_t lines = 1;             // of one channel: phases, or the taps of a block
  int64_t halo = 0;              // columns of a line beyond those of the panel
  int64_t period = 0;            // columns from one sample to the next
  int64_t columns = 0;           // of the whole batch
  int64_t line = 0;              // elements from one line of a panel to the next
  std::vector<TapPlace> taps;    // the first `lines` are those of a shared panel's lines
  std::vector<int64_t> offsets;  // of each tap: from a channel's first line to its column 0

  int64_t channel() const { return lines * line; }  // elements of a channel
  // Whether neighbours in a line are neighbours in dy.
  bool contiguous() const { return stride * place_step == 1; }
  std::size_t table_bytes() const {
    return taps.capacity() * sizeof(TapPlace) + offsets.capacity() * sizeof(int64_t);
  }
  void set_columns(int64_t panel_columns);  // of a panel: sets line and offsets
};

// rows: how many share the loads of a column; the samples of a batch are expanded if rows*gap is costly.
// masks: the target loads parts of vectors by masks. Above kMaxTapBlock taps the panel is always expanded:
// the packed layout must not depend on n or l.
SplitPanel split_panel(const core::Problem& problem, int64_t rows, bool masks = false);

}  // namespace tconv::cpu::strided
