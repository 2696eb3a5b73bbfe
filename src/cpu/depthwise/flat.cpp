#include "cpu/depthwise/flat.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/simd/dispatch.hpp"

namespace tconv::cpu::depthwise {
namespace {

using core::ceil_div;
using core::Problem;

constexpr int64_t kTaskElements = 8192;  // of weights of a task, or of x of a sample
constexpr int64_t kTaskOutputs = 65536;  // so that making the weights is a small part of a task
// Products of a row for each lane, at most. A product costs 0.1 ns here, and once more as much or more for
// the weights of a task; elsewhere a row costs 25 to 60 ns whatever its length. us on one core, AVX-512, 256
// channels, elsewhere and here, one sample; 16 samples: K7 l16 12.7, 11.7; 126, 44. K7 l32 13.8, 18.0;
// 136, 81. K16 s8 l16 18.0, 23.2; 246, 144. K7 l96 19, 50; 242, 266. With AVX2 and SSE4 the two meet at about
// as many products for each lane.
constexpr int64_t kMostProducts = 16;
// Rows of at most kFewVectors vectors may have more: elsewhere each sum waits for its last product, and few
// of them are on their way. K31 l24, K31 l16 p0, K15 l20, K20 s2 l16, 64 samples: 1.29, 1.67, 0.87, 0.68 ms,
// here 0.67, 0.82, 0.34, 0.42; one sample 25, 30, 19, 18 us, here 40, 52, 26, 26.
constexpr int64_t kFewVectors = 3, kMostOfFew = 48;
// For each of a few samples, which share the order of the weights. All ways add up the same products in the
// same order, so the batch may count here. us of a call from Python on a Zen 3 with AVX2, 256 channels,
// elsewhere and here, one sample: K3 l16 21, 19; K4 s2 l16 22, 24; K7 l16 22, 26; three samples: K4 s2 l16
// 44, 35; K7 l16 44, 42; K15 l24 68, 107.
constexpr int64_t kMostAlone = 7;
constexpr int64_t kBlockElements = 1 << 15;  // of raw weights or of x of a block, at most

// The taps of output o inside x: [begin, end) of its residue's.
struct Reach {
  int64_t begin, end;
};
Reach reach_of(const Problem& p, const Residues& residues, int64_t o) {
  const Residue& r = residues.table[static_cast<std::size_t>(o % p.stride)];
  const int64_t highest = o / p.stride + r.offset;
  const int64_t begin = std::max<int64_t>(0, ceil_div(highest - p.l + 1, residues.x_step));
  const int64_t end = std::min(r.count, core::floor_div(highest, residues.x_step) + 1);
  return {begin, std::max(begin, end)};
}

int64_t most_taps(const Problem& p, const Residues& residues) {
  int64_t most = 1;
  for (int64_t o = 0; o < p.lout(); ++o) {
    const Reach reach = reach_of(p, residues, o);
    most = std::max(most, reach.end - reach.begin);
  }
  return most;
}

// The places of the first group are given; those of the others lie `step` further each. Dividing for each of
// them took 45 us of a plan.
void fill_groups(int64_t per_group, int64_t step, int32_t* at) {
  for (int64_t group = 1; group < kFlatGroups; ++group) {
    const auto further = static_cast<int32_t>(group * step);
    int32_t* to = at + group * per_group;
    for (int64_t e = 0; e < per_group; ++e) to[e] = at[e] < 0 ? -1 : at[e] + further;
  }
}

void fill_places(const Problem& p, const Residues& residues, Flat& flat) {
  const int64_t cin = p.cin_per_group(), cout = p.cout_per_group(), lout = p.lout();
  const auto row_lines = static_cast<std::size_t>(flat.outputs / 16),
             taps = static_cast<std::size_t>(flat.taps);
  flat.x.lines.resize(taps * row_lines);
  flat.w.lines.resize((taps + 1) * row_lines);
  std::fill_n(flat.x.at(), flat.x.size(), -1);
  std::fill_n(flat.w.at(), flat.w.size(), -1);
  for (int64_t o = 0; o < lout; ++o) {
    const Residue& r = residues.table[static_cast<std::size_t>(o % p.stride)];
    const int64_t highest = o / p.stride + r.offset;
    const Reach reach = reach_of(p, residues, o);
    for (int64_t co = 0; co < cout; ++co) {
      int64_t at = co * lout + o;
      for (int64_t ci = 0; ci < cin; ++ci) {
        for (int64_t j = reach.begin; j < reach.end; ++j, at += flat.outputs) {
          flat.x.at()[at] = static_cast<int32_t>(ci * p.l + highest - j * residues.x_step);
          flat.w.at()[at] = static_cast<int32_t>((ci * cout + co) * p.k + r.k0 + j * residues.k_step);
        }
      }
      const int64_t bias = kFlatGroups * cin * cout * p.k + co;  // biases follow weights
      flat.w.at()[flat.taps * flat.outputs + co * lout + o] = static_cast<int32_t>(bias);
    }
  }
  for (int64_t j = 0; j < flat.taps; ++j) {
    fill_groups(cout * lout, cin * p.l, flat.x.at() + j * flat.outputs);
    fill_groups(cout * lout, cin * cout * p.k, flat.w.at() + j * flat.outputs);
  }
  fill_groups(cout * lout, cout, flat.w.at() + flat.taps * flat.outputs);
}

void fill_bases(int64_t lanes, Places& places) {
  places.base.reserve(static_cast<std::size_t>(places.size() / lanes));
  for (int64_t e = 0; e < places.size(); e += lanes) {
    uint32_t low = UINT32_MAX;  // -1 is the largest
    int32_t high = 0;
    for (int64_t i = e; i < e + lanes; ++i) {
      low = std::min(low, static_cast<uint32_t>(places.at()[i]));
      high = std::max(high, places.at()[i]);
    }
    if (low == UINT32_MAX) low = 0;
    if (high - static_cast<int32_t>(low) >= 2 * lanes) return places.base.clear();
    places.base.push_back(static_cast<int32_t>(low));
  }
}

}  // namespace

Flat flat_of(const Problem& p, const Residues& residues, int threads) {
  Flat flat;
  flat.lanes =
      static_cast<int64_t>(static_cast<std::size_t>(simd::vector_bytes()) / accumulator_size(p.dtype));
  const int64_t cin = p.cin_per_group(), cout = p.cout_per_group(), lout = p.lout();
  const int64_t lanes = std::max<int64_t>(flat.lanes, 1);
  int64_t most = lout <= kFewVectors * lanes ? kMostOfFew : kMostProducts;
  if (p.n < kFlatSamples) most = std::min(most, kMostAlone * p.n);
  most *= lanes;
  if (p.l == 0 || lout <= 0 || core::Size(lout) * cin * cout > most) return flat;
  if (core::Size(kFlatGroups) * cin * p.l > kBlockElements) return flat;
  if (core::Size(kFlatGroups) * cin * cout * p.k > kBlockElements) return flat;
  const int64_t taps = cin * most_taps(p, residues);
  if (taps * cout * lout > most) return flat;
  flat.taps = taps;
  flat.outputs = kFlatGroups * cout * lout;
  fill_places(p, residues, flat);
  if (flat.lanes > 1) {
    fill_bases(flat.lanes, flat.x);
    fill_bases(flat.lanes, flat.w);
  }
  const int64_t all = ceil_div(p.groups, kFlatGroups);
  const int64_t block = std::max(flat.taps * flat.outputs, kFlatGroups * cin * p.l);
  flat.blocks = std::clamp<int64_t>(kTaskElements / block, 1, all);
  flat.samples = std::max(p.n, kFlatSamples);
  if (threads > 1) {
    const int64_t share = ceil_div(p.n, ceil_div(4 * threads, ceil_div(all, flat.blocks)));
    const int64_t least = ceil_div(kTaskOutputs, flat.blocks * flat.outputs);
    flat.samples = std::clamp(round_up(std::max(share, least), kFlatSamples), kFlatSamples, flat.samples);
  }
  return flat;
}

std::string Flat::text() const {
  return "rows one after another, " + std::to_string(blocks * kFlatGroups) + " groups and " +
         std::to_string(samples) + " samples a task" + (x.base.empty() ? ", x gathered" : ", x by windows");
}

}  // namespace tconv::cpu::depthwise
