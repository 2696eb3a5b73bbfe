#include <algorithm>
#include <utility>

#include "core/polyphase.hpp"
#include "cpu/narrow/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/narrow/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/narrow/product-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::narrow::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Tile {
  const T* x;  // the group's first channel at position 0
  int64_t q0, count;
  bool in_place;
  Accumulator<T>* staged;
};

// Channels [ci, ci + channels) of x with everything that `count` outputs from `from` on read, including the
// overhang of vectors: in place, or copied.
template <class T, class D, class A>
HWY_INLINE std::pair<const A*, int64_t> PrepareX(D d, const Job& job, const Tile<T>& tile, int64_t from,
                                                 int64_t count, int64_t ci, int64_t channels, A* staged) {
  const auto steps = job.problem.x_steps();
  const int64_t first = tile.q0 + from + job.lowest;
  if constexpr (std::is_same_v<T, A>) {
    if (tile.in_place) return {tile.x + ci * steps[1] + first, steps[1]};
  }
  const int64_t positions = count + static_cast<int64_t>(hn::Lanes(d)) + job.highest - job.lowest;
  for (int64_t c = 0; c < channels; ++c) {
    StageRow(d, tile.x + (ci + c) * steps[1], steps[2], job.problem.l, first, positions,
             staged + c * job.pitch);
  }
  return {staged, job.pitch};
}

// A unit's operands and scratch, the same for all its parts.
template <class T>
struct Unit {
  using A = Accumulator<T>;
  const A* w;
  A *rows, *sums, *bias;
  T* y;
  bool numbers;  // neither weights nor bias hold an infinity or NaN
};

// Whether rows are stored in y directly: whole vectors at a stride of 1.
template <class T, class A>
HWY_INLINE bool StraightToY(const Job& job, const Tile<T>& tile, int64_t from, int64_t count) {
  const int64_t o = tile.q0 + from - job.problem.padding;
  return std::is_same_v<T, A> && job.problem.stride == 1 && !job.config.by_taps && o >= 0 &&
         o + count <= job.lout && count % kRowSlack == 0;
}

template <class D, class A>
HWY_INLINE bool AllRowsFinite(D d, const A* x, int64_t pitch, int64_t channels, int64_t count) {
  bool finite = true;
  for (int64_t c = 0; c < channels; ++c) finite = AllFinite(d, x + c * pitch, count) && finite;
  return finite;
}

// What the first block prefetches for the others: x of the next `depth` channels, or else of the next part.
template <class T, class A>
HWY_INLINE void FetchAhead(const Job& job, const Tile<T>& tile, int64_t from, int64_t count, int64_t ci,
                           const A* x, BlockOperands<A>& in) {
  if constexpr (std::is_same_v<T, A>) {
    const bool more = ci + job.config.depth < job.problem.cin_per_group();
    const auto steps = job.problem.x_steps();
    in.ahead_of_copy = !tile.in_place;
    in.ahead_pitch = steps[1];
    if (tile.in_place) {
      in.ahead = more ? x + job.config.depth * steps[1] : x - ci * steps[1] + count;
    } else if (steps[2] == 1) {
      // Addresses outside x are not read.
      const int64_t channel = more ? ci + job.config.depth : 0,
                    position = tile.q0 + from + (more ? 0 : count);
      in.ahead = reinterpret_cast<const A*>(
          reinterpret_cast<std::uintptr_t>(tile.x) +
          static_cast<std::uintptr_t>(channel * steps[1] + position + job.lowest) * sizeof(A));
    }
  }
}

// All rows over [from, from + count) of the tile, `depth` channels at a time: so many rows of x stay in L1
// and in the first-level TLB. Returns whether the rows are in y.
template <class T, class D>
HWY_INLINE bool Part(D d, const Job& job, const Tile<T>& tile, int64_t from, int64_t count,
                     const Unit<T>& unit) {
  using A = Accumulator<T>;
  const core::Problem& p = job.problem;
  const int64_t cin = p.cin_per_group(), depth = job.config.depth, halo = job.highest - job.lowest;
  const bool by_taps = job.config.by_taps, straight = StraightToY<T, A>(job, tile, from, count);
  for (int64_t ci = 0; ci < cin; ci += depth) {
    const int64_t channels = std::min(depth, cin - ci);
    const auto [x0, pitch] = PrepareX(d, job, tile, from, count, ci, channels, tile.staged);
    Last last = Last::accumulators;
    if (straight && ci + depth >= cin) {
      // Testing whether x is finite pays only if it takes less time than testing each output.
      const bool ask = HWY_NATIVE_FMA && unit.numbers && cin <= depth && cin <= job.row_count();
      last = ask && AllRowsFinite(d, x0, pitch, channels, count + halo) ? Last::numbers : Last::canonical;
    }
    for (std::size_t b = 0; b < job.blocks.size(); ++b) {
      const Block& block = job.blocks[b];
      A* out[kBlockRows];
      A row_bias[kBlockRows];
      for (std::size_t r = 0; r < block.rows.size(); ++r) {
        const int64_t row = block.rows[r];
        out[r] = by_taps ? unit.sums + row * job.sums_pitch() : unit.rows + row * job.row_pitch();
        row_bias[r] = by_taps ? A{0} : unit.bias[row / p.stride];
        if constexpr (std::is_same_v<T, A>) {
          if (straight) out[r] = unit.y + row * job.lout + (tile.q0 + from - p.padding);
        }
      }
      const A* x = x0 - job.lowest + block.offset;
      const int64_t weights = ci * block.taps * static_cast<int64_t>(block.rows.size());
      BlockOperands<A> in{x,   pitch, channels, block.taps, job.x_step, unit.w + block.weights + weights,
                          out, last,  nullptr,  0,          false};
      if (b == 0) FetchAhead(job, tile, from, count, ci, x, in);
      AnyBlock(d, in, block.rows.size(), by_taps ? count + halo : count, ci == 0 ? row_bias : nullptr);
    }
  }
  return straight;
}

// By taps: makes rows from the sums of taps.
template <class D, class A>
HWY_INLINE void ShiftTaps(D d, const Job& job, int64_t count, const A* sums, const A* bias, A* rows) {
  const core::Problem& p = job.problem;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), pitch = job.sums_pitch();
  for (int64_t row = 0; row < job.row_count(); ++row) {
    const int64_t co = row / p.stride, r = row % p.stride;
    const RowTaps taps = job.row_taps[static_cast<std::size_t>(r)];
    const auto start = hn::Set(d, bias[co]);
    for (int64_t q = 0; q < count; q += lanes) {
      const A* from = sums + (co * p.k + job.first_tap[static_cast<std::size_t>(r)]) * pitch + taps.offset -
                      job.lowest + q;
      auto sum = start;
      for (int64_t j = 0; j < taps.count; ++j) {
        sum = hn::Add(sum, hn::LoadU(d, from));
        from += job.k_step * pitch - job.x_step;
      }
      hn::StoreU(sum, d, rows + row * job.row_pitch() + q);
    }
  }
}

template <class T, class D>
Tile<T> TileAt(D d, const Job& job, const T* x, int64_t q0, Accumulator<T>* staged) {
  const core::Problem& p = job.problem;
  const int64_t count = std::min(job.config.tile, job.q_end - q0);
  const int64_t reach = q0 + count + static_cast<int64_t>(hn::Lanes(d)) + job.highest;
  const bool inside = q0 + job.lowest >= 0 && reach <= p.l && p.x_steps()[2] == 1;
  return {x, q0, count, job.config.in_place && inside && std::is_same_v<T, Accumulator<T>>, staged};
}

// Stores the rows of a part in y.
template <class T, class D, class A>
HWY_INLINE void StoreRows(D d, const Job& job, int64_t o, int64_t positions, const Unit<T>& unit,
                          const A* rows) {
  const int64_t s = job.problem.stride, row_pitch = job.row_pitch();
  const int64_t clip = std::max<int64_t>(0, -o), elements = std::min(job.lout - o, s * positions);
  for (int64_t co = 0; co < job.problem.cout_per_group(); ++co) {
    const A* channel = rows + co * s * row_pitch;
    T* y = unit.y + co * job.lout;
    InterleaveRows(d, channel, row_pitch, s, clip, elements, y, o);
  }
}

template <class T>
void RunTask(const Job& job, const plan::Operands& in, const PackedHeader& header, int64_t task,
             void* scratch) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const auto steps = p.x_steps();
  const int64_t cin = p.cin_per_group(), cout = p.cout_per_group(), part = job.config.part;
  A* staged = static_cast<A*>(scratch);
  Unit<T> unit;
  unit.rows = staged + std::min(cin, job.config.depth) * job.pitch;
  unit.bias = unit.rows + job.row_count() * job.row_pitch();
  unit.sums = unit.bias + cout;
  const int64_t begin = task * job.config.units_per_task;
  const int64_t end = std::min(job.units(), begin + job.config.units_per_task);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t n = u / (p.groups * job.tiles), group = u / job.tiles % p.groups;
    unit.w = reinterpret_cast<const A*>(&header + 1) + group * cin * cout * p.k;
    unit.y = static_cast<T*>(in.output) + (n * p.cout + group * cout) * job.lout;
    const T* x = static_cast<const T*>(in.x) + n * steps[0] + group * cin * steps[1];
    const Tile<T> tile = TileAt(d, job, x, job.q_begin + u % job.tiles * job.config.tile, staged);
    for (int64_t co = 0; co < cout; ++co) {
      unit.bias[co] = start_of<T>(p.has_bias, in.bias, group * cout + co);
    }
    unit.numbers = header.special == 0 && AllFinite(d, unit.bias, cout);
    for (int64_t q = 0; q < tile.count; q += part) {
      const int64_t count = std::min(part, tile.count - q);
      if (Part(d, job, tile, q, count, unit)) continue;
      if (job.config.by_taps) ShiftTaps(d, job, count, unit.sums, unit.bias, unit.rows);
      StoreRows(d, job, p.stride * (tile.q0 + q) - p.padding, count, unit, unit.rows);
    }
  }
}

template <class T>
bool Reorder(const Job& job, const void* weight, void* reordered) {
  using A = Accumulator<T>;
  const core::Problem& p = job.problem;
  const int64_t cin = p.cin_per_group(), cout = p.cout_per_group();
  const T* raw = static_cast<const T*>(weight);
  A* out = static_cast<A*>(reordered);
  for (int64_t group = 0; group < p.groups; ++group) {
    for (const Block& block : job.blocks) {
      for (int64_t ci = group * cin; ci < (group + 1) * cin; ++ci) {
        for (int64_t j = 0; j < block.taps; ++j) {
          for (const int64_t row : block.rows) {
            if (job.config.by_taps) {
              *out++ = widen(raw[ci * cout * p.k + row]);
              continue;
            }
            const int64_t k0 = job.first_tap[static_cast<std::size_t>(row % p.stride)];
            *out++ = widen(raw[(ci * cout + row / p.stride) * p.k + k0 + j * job.k_step]);
          }
        }
      }
    }
  }
  return AllFinite(hn::ScalableTag<A>(), static_cast<const A*>(reordered), p.weight_elements());
}

void Run(const Job& job, const plan::Operands& in, const PackedHeader& header, int64_t task, void* scratch) {
  with_storage(job.problem.dtype,
               [&](auto storage) HWY_ATTR { RunTask<decltype(storage)>(job, in, header, task, scratch); });
}

bool ReorderAny(const Job& job, const void* weight, void* reordered) {
  return with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    return Reorder<decltype(storage)>(job, weight, reordered);
  });
}

}  // namespace tconv::cpu::narrow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::narrow {

HWY_EXPORT(Run);
HWY_EXPORT(ReorderAny);

bool reorder_weights(const Job& job, const void* weight, void* reordered) {
  return TCONV_DISPATCH(ReorderAny)(job, weight, reordered);
}

void run_task(const Job& job, const plan::Operands& operands, const PackedHeader& header, int64_t task,
              void* scratch) {
  TCONV_DISPATCH(Run)(job, operands, header, task, scratch);
}

}  // namespace tconv::cpu::narrow
#endif
