// Short rows one after another in vectors: the tables of Way::flat (contract.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "cpu/common/residues.hpp"

namespace tconv::cpu::depthwise {

constexpr int64_t kFlatGroups = 16;   // of a block: its outputs fill whole vectors, whatever their width
constexpr int64_t kFlatSamples = 4;   // at once, for each load of weights and places
constexpr int64_t kFlatOverrun = 32;  // elements that a vector may load beyond a block of x

// Where the operands of a block's outputs lie: of output e and its j-th product at [j*outputs + e], -1 if
// there is no such product.
struct Places {
  struct alignas(64) Line {  // a vector that spans two cache lines takes two loads
    int32_t at[16];
  };
  std::vector<Line> lines;
  // Of vector v of outputs its lowest place, at [j*outputs/lanes + v]. All its places lie less than 2*lanes
  // further. Empty if in some vector they do not.
  std::vector<int32_t> base;
  std::size_t bytes() const { return lines.capacity() * sizeof(Line) + base.capacity() * sizeof(int32_t); }
  const int32_t* at() const { return reinterpret_cast<const int32_t*>(lines.data()); }
  int32_t* at() { return reinterpret_cast<int32_t*>(lines.data()); }
  int64_t size() const { return static_cast<int64_t>(lines.size()) * 16; }
};

struct Flat {
  int64_t taps = 0;  // most products of an output; 0: rows are too long for this way. Row `taps` of w: biases
  int64_t outputs = 0;  // of a block of one sample
  int64_t blocks = 0;   // of a task: what they read for each sample stays in the caches
  int64_t samples = 0;  // of a task
  int64_t lanes = 0;    // of the vectors that windows are made for
  // Of output e of a block and its j-th product: where x lies in the block, and where w lies.
  Places x, w;
  std::size_t table_bytes() const { return x.bytes() + w.bytes(); }
  std::string text() const;
};

// taps is 0 if the rows are too long.
Flat flat_of(const core::Problem& problem, const Residues& residues, int threads);

}  // namespace tconv::cpu::depthwise
