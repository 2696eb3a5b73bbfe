// Packs raw weights into tiles. Both products have blocks of rows (one input channel each) x columns
// (contiguous raw weights), but a tile wants the input channels side by side: hence transposes of 8x8.
//
//   transposed  one part: rows are ci, `out_channels * K` apart; columns are (channel of the unit, k)
//   strided     a part for each output channel of the unit: rows are co, K apart; columns are k
#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/polyphase.hpp"
#include "cpu/amx/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/amx/pack.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::amx {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kBlock = 8;

// 8 rows x up to 8 columns of raw weights; rows from `rows` on are zeros.
struct Block {
  const uint16_t* from;
  int64_t row_step, rows, columns;
  const WeightPlace* places;  // of the first column
  uint16_t* to;               // the unit, at the first row's channel in a step
  int64_t step;
};

// Magnitudes minus one: a zero wraps around to the largest.
struct Magnitudes {
  uint16_t least_less_one = 0xffff, most = 0;

  void add(uint16_t bits) {
    const auto magnitude = static_cast<uint16_t>(bits & 0x7fff);
    least_less_one = std::min(least_less_one, static_cast<uint16_t>(magnitude - 1));
    most = std::max(most, magnitude);
  }
};

HWY_INLINE void PackElements(const Block& b, Magnitudes& seen) {
  for (int64_t column = 0; column < b.columns; ++column) {
    uint16_t* to = b.to + b.places[column].at + b.step * b.places[column].step;
    for (int64_t row = 0; row < kBlock; ++row) {
      to[row] = row < b.rows ? b.from[row * b.row_step + column] : uint16_t{0};
      seen.add(to[row]);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// Reads 8 columns of every row, even if fewer are packed.
template <class V>
HWY_INLINE void PackVectors(const Block& b, V& least, V& most) {
  const hn::FixedTag<uint16_t, 8> d;
  const hn::FixedTag<uint32_t, 4> d2;
  const hn::FixedTag<uint64_t, 2> d4;
  hn::Vec<decltype(d)> v[kBlock];
  for (int64_t row = 0; row < kBlock; ++row) {
    v[row] = row < b.rows ? hn::LoadU(d, b.from + row * b.row_step) : hn::Zero(d);
    const auto magnitude = hn::And(v[row], hn::Set(d, uint16_t{0x7fff}));
    least = hn::Min(least, hn::Sub(magnitude, hn::Set(d, uint16_t{1})));
    most = hn::Max(most, magnitude);
  }
  hn::Vec<decltype(d4)> quads[2][4];  // rows 0 to 3 and 4 to 7, two columns each
  for (int half = 0; half < 2; ++half) {
    const auto* from = v + 4 * half;
    const auto low01 = hn::BitCast(d2, hn::InterleaveLower(d, from[0], from[1]));
    const auto low23 = hn::BitCast(d2, hn::InterleaveLower(d, from[2], from[3]));
    const auto high01 = hn::BitCast(d2, hn::InterleaveUpper(d, from[0], from[1]));
    const auto high23 = hn::BitCast(d2, hn::InterleaveUpper(d, from[2], from[3]));
    quads[half][0] = hn::BitCast(d4, hn::InterleaveLower(d2, low01, low23));
    quads[half][1] = hn::BitCast(d4, hn::InterleaveUpper(d2, low01, low23));
    quads[half][2] = hn::BitCast(d4, hn::InterleaveLower(d2, high01, high23));
    quads[half][3] = hn::BitCast(d4, hn::InterleaveUpper(d2, high01, high23));
  }
  for (int64_t column = 0; column < b.columns; ++column) {
    const auto upper = quads[0][column / 2], lower = quads[1][column / 2];
    const auto all =
        column % 2 == 0 ? hn::InterleaveLower(d4, upper, lower) : hn::InterleaveUpper(d4, upper, lower);
    hn::StoreU(hn::BitCast(d, all), d, b.to + b.places[column].at + b.step * b.places[column].step);
  }
}
#endif

// Rows and columns of one part, as above.
struct Part {
  const uint16_t* from;
  int64_t row_step, rows, columns;
  const WeightPlace* places;
};

// Rows [begin, begin + count), whole steps. end: one past the whole weight.
HWY_NOINLINE void PackPart(const Part& part, int64_t begin, int64_t count, const uint16_t* end,
                           uint16_t* unit, Magnitudes& seen) {
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint16_t, 8> d;
  auto least = hn::Set(d, uint16_t{0xffff}), most = hn::Zero(d);
#endif
  for (int64_t row = begin; row < begin + count; row += kBlock) {
    for (int64_t column = 0; column < part.columns; column += kBlock) {
      Block b{part.from + row * part.row_step + column,
              part.row_step,
              std::clamp<int64_t>(part.rows - row, 0, kBlock),
              std::min(kBlock, part.columns - column),
              part.places + column,
              unit + row % kStep,
              row / kStep};
#if HWY_TARGET != HWY_SCALAR
      if (b.rows == 0 || b.from + (b.rows - 1) * b.row_step + kBlock <= end) {
        PackVectors(b, least, most);
        continue;
      }
#endif
      PackElements(b, seen);
    }
  }
#if HWY_TARGET != HWY_SCALAR
  uint16_t lanes[kBlock];
  hn::StoreU(least, d, lanes);
  for (const uint16_t lane : lanes) seen.least_less_one = std::min(seen.least_less_one, lane);
  hn::StoreU(most, d, lanes);
  for (const uint16_t lane : lanes) seen.most = std::max(seen.most, lane);
#else
  (void)end;
#endif
}

// The rows of a transposed product lie many pages apart: neighbouring units take turns at each step.
PackedHeader PackUnits(const Job& job, int64_t group, int64_t begin, int64_t end, const uint16_t* weight,
                       uint16_t* to) {
  const int64_t k = job.problem.k, rows = job.config.steps * kStep, unit_weights = job.unit_weights();
  const uint16_t* weights_end = weight + job.problem.weight_elements();
  const auto channels_of = [&](int64_t unit) {
    return std::min(job.config.channels, job.out_channels - unit * job.config.channels);
  };
  Magnitudes seen;
  for (int64_t unit = begin; unit < end; ++unit) {
    bool full = channels_of(unit) == job.config.channels;
    for (const RowClass& c : job.classes)
      full = full && channels_of(unit) * c.residues == c.row_tiles * kTile;
    uint16_t* at = to + (unit - begin) * unit_weights;
    if (!full) std::memset(at, 0, static_cast<std::size_t>(unit_weights) * sizeof(uint16_t));
    if (job.transposed()) continue;
    for (int64_t channel = 0; channel < channels_of(unit); ++channel) {
      const int64_t row = group * job.out_channels + unit * job.config.channels + channel;
      const Part part{weight + row * job.in_channels * k, k, job.in_channels, k,
                      job.places.data() + channel * k};
      PackPart(part, 0, rows, weights_end, at, seen);
    }
  }
  const int64_t row_step = job.out_channels * k;
  for (int64_t row = 0; job.transposed() && row < rows; row += kStep) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const uint16_t* from = weight + group * job.in_channels * row_step + unit * job.config.channels * k;
      const Part part{from, row_step, job.in_channels, channels_of(unit) * k, job.places.data()};
      PackPart(part, row, kStep, weights_end, to + (unit - begin) * unit_weights, seen);
    }
  }
  PackedHeader found;
  found.special = seen.most >= 0x7f80 ? 1 : 0;
  found.least = seen.least_less_one == 0xffff ? kNoMagnitude : seen.least_less_one + 1;
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::amx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::amx {

HWY_EXPORT(PackUnits);

namespace {

constexpr int64_t kTaskBytes = 512 * 1024;  // of packed weights, at most

int64_t units_of_task(const Job& job, int threads) {
  const int64_t most = std::max<int64_t>(1, kTaskBytes / 2 / job.unit_weights());
  return std::clamp<int64_t>(job.config.units / (2 * threads), 1, most);
}

}  // namespace

int64_t pack_tasks(const Job& job, int threads) {
  return job.problem.groups * core::ceil_div(job.config.units, units_of_task(job, threads));
}

void pack_task(const Job& job, int threads, int64_t index, const void* weight, void* packed) {
  const int64_t units = units_of_task(job, threads), chunks = core::ceil_div(job.config.units, units);
  const int64_t group = index / chunks, begin = index % chunks * units;
  PackedHeader& header = *static_cast<PackedHeader*>(packed);
  auto* to =
      reinterpret_cast<uint16_t*>(&header + 1) + (group * job.config.units + begin) * job.unit_weights();
  const PackedHeader found = TCONV_DISPATCH(PackUnits)(
      job, group, begin, std::min(job.config.units, begin + units), static_cast<const uint16_t*>(weight), to);
  if (found.special != 0) std::atomic_ref<int32_t>(header.special).store(1, std::memory_order_relaxed);
  std::atomic_ref<int32_t> least(header.least);
  int32_t seen = least.load(std::memory_order_relaxed);
  while (found.least < seen && !least.compare_exchange_weak(seen, found.least, std::memory_order_relaxed)) {
  }
}

}  // namespace tconv::cpu::amx
#endif
