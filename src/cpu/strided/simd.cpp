#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/strided/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/strided/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/dense/microkernel-inl.hpp"
#include "cpu/simd/rows-inl.hpp"
#include "cpu/simd/tiles-inl.hpp"
#include "cpu/strided/ahead-inl.hpp"
#include "cpu/strided/direct-inl.hpp"
#include "cpu/strided/phases-inl.hpp"
#include "cpu/strided/store-inl.hpp"
#include "cpu/strided/strips-inl.hpp"
#include "cpu/strided/worker-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kMostFetched = 1 << 17;  // bytes of the next row block: it must leave room in L2

// The share of the next row block's weights that tile `index` of `count` prefetches, so that the first tile
// of that block does not wait for each of its streams.
template <class T, class A>
HWY_INLINE LinesAhead NextWeights(const Worker<T, A>& w, const Depth& depth, int64_t block, int64_t index,
                                  int64_t count) {
  LinesAhead lines;
  const bool raw = w.packed == nullptr;
  if (block + 1 >= w.task.block_end || (raw && w.job.config.pass_blocks > 1)) return lines;
  const int64_t k = w.job.problem.k, runs = raw ? std::min(kRows, w.job.cin - (block + 1) * kRows) : 1;
  // From the first to the last weight that this depth block reads of a raw row.
  const int64_t reach = (depth.channels() - 1) * k + depth.taps();
  const int64_t size = raw ? reach * static_cast<int64_t>(sizeof(T))
                           : depth.channels() * depth.taps() * kRows * static_cast<int64_t>(sizeof(A));
  if (runs * size > kMostFetched) return lines;
  const char* first = raw ? reinterpret_cast<const char*>(RowsOf(w, depth, block + 1).at[0] + depth.tap_begin)
                          : reinterpret_cast<const char*>(PackedOf(w, depth, block + 1));
  lines.of_run = core::ceil_div(size, kLineBytes) + (raw ? 1 : 0);  // raw rows begin anywhere in a line
  lines.run_step = w.job.cout * k * static_cast<int64_t>(sizeof(T));
  const int64_t all = runs * lines.of_run, share = core::ceil_div(all, count), begin = index * share;
  lines.left = std::clamp<int64_t>(all - begin, 0, share);
  lines.place = begin % lines.of_run;
  lines.at = first + begin / lines.of_run * lines.run_step + lines.place * kLineBytes;
  return lines;
}

template <class T, class A>
HWY_INLINE void BeginAtBias(const Worker<T, A>& w, int64_t block, int64_t vecs, A* sums) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Rows that do not exist are dropped, and a block of one row does not read them.
  const int64_t last = w.job.cin - 1, rows = block * kRows == last ? 1 : kRows;
  for (int64_t row = 0; row < rows; ++row, sums += w.sums_line) {
    const int64_t ci = std::min(block * kRows + row, last);
    const auto bias = hn::Set(d, start_of<T>(true, w.bias, w.task.group * w.job.cin + ci));
    for (int64_t v = 0; v < vecs; ++v) hn::StoreU(bias, d, sums + v * lanes);
  }
}

// The columns [begin, end) of a panel.
struct ColumnRun {
  int64_t begin, end;
};

// All tiles of a row block in a run of columns and a depth block. Returns whether a sum at an end is NaN.
template <class T, class A, class Weights>
HWY_INLINE bool DoBlock(const Worker<T, A>& w, const Depth& depth, int64_t block, const ColumnRun& run,
                        const Weights& weights, PanelAhead<T>& ahead, bool last) {
  const Job& job = w.job;
  const bool one = job.one_depth_block();
  // With one phase, taps lie evenly apart, and columns are fetched ahead without a table: a tenth faster from
  // 96 products on, a tenth slower with 4.
  const bool even = job.split.lines == 1 && !job.split.expanded && depth.channels() * depth.taps() >= 96;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t tiles = core::ceil_div(run.end - run.begin, 3 * lanes);
  A* sums = w.sums + (one ? 0 : (block - w.task.block_begin) * kRows * w.sums_line);
  const bool fetch = kFetchOutputs<A> && last && depth.channels() * depth.taps() >= kFetchDepth;
  const bool direct = one && depth.taps() == job.problem.k && depth.channels() * depth.taps() <= kDirectDepth;
  bool nan = false;
  int64_t index = 0;
  for (int64_t column = run.begin; column < run.end; ++index) {
    const int64_t left = core::ceil_div(run.end - column, lanes);
    const int64_t vecs = left == 4 ? 2 : std::min<int64_t>(3, left);  // 2 + 2 keeps more sums in flight
    const int64_t count = std::min(vecs * lanes, run.end - column);
    if (direct) ahead.fetch();
    if (fetch) FetchOutputs(job, w.task, block, column, count, w.dx);
    if constexpr (!Weights::kInPlace) {
      if (direct && DoDirect(w, depth, block, column, count, weights.row(0), nan)) {
        column += count;
        continue;
      }
    }
    dense::HWY_NAMESPACE::Tile<A> t{};
    t.panel = w.panel + column;
    t.line = job.split.channel();
    t.channels = depth.channels();
    t.taps = depth.taps();
    t.sums = sums + (one ? 0 : column);
    t.sums_line = w.sums_line;
    t.add = depth.co_begin > 0 || depth.tap_begin > 0;
    if (!t.add && w.bias != nullptr) {
      BeginAtBias(w, block, vecs, t.sums);
      t.add = true;
    }
    t.tap_offsets = job.split.offsets.data() + depth.tap_begin;
    if (even) t.panel += t.tap_offsets[0], t.tap_stride = job.problem.dilation / job.problem.stride;
    if (run.begin == 0) t.ahead = NextWeights(w, depth, block, index, tiles);
    if (!direct) {
      if (t.ahead.left > 0) {
        ahead.fetch();
      } else {
        t.ahead = ahead.take();
      }
    }
    const int64_t rows = std::min(kRows, job.cin - block * kRows);
    if (even) {
      dense::HWY_NAMESPACE::MultiplyBlock(t, weights, rows, vecs);
    } else {
      dense::HWY_NAMESPACE::MultiplyBlock<true>(t, weights, rows, vecs);
    }
    if (last) nan = StoreBlock(job, w.task, w.inside, block, column, count, t.sums, t.sums_line, w.dx) || nan;
    column += count;
  }
  return nan;
}

// Whether raw weights of a row block are read in place: for one tile or one row. Others are packed, and two
// or more tiles read them 20% faster then.
template <class T, class A>
HWY_INLINE bool ReadInPlace(const Worker<T, A>& w, int64_t block) {
  if constexpr (std::is_same_v<T, A>) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
    return w.job.cin == block * kRows + 1 || w.task.column_end - w.task.column_begin <= 3 * lanes;
  }
  return false;
}

// A row block of a pass whose raw weights, unless they are read in place, are packed at `packed`.
template <class T, class A>
HWY_INLINE bool DoRawBlock(const Worker<T, A>& w, const Depth& depth, int64_t block, const ColumnRun& run,
                           const A* packed, PanelAhead<T>& ahead, bool last) {
  if constexpr (std::is_same_v<T, A>) {
    if (ReadInPlace(w, block)) {
      const BlockRows<T> rows = RowsOf(w, depth, block);
      RawRows<A> in_place;
      for (int64_t r = 0; r < kRows; ++r) in_place.at[r] = rows.at[r] + depth.tap_begin;
      in_place.gap = w.job.problem.k - depth.taps();
      return DoBlock(w, depth, block, run, in_place, ahead, last);
    }
  }
  return DoBlock(w, depth, block, run, PackedRows<A>{packed}, ahead, last);
}

// Row blocks whose weights stay in L2, run by run of the panel.
template <class T, class A>
HWY_INLINE bool DoPass(const Worker<T, A>& w, const Depth& depth, int64_t block_begin, int64_t block_end,
                       PanelAhead<T>& ahead, bool last) {
  const bool raw = w.packed == nullptr;
  const int64_t columns = w.task.column_end - w.task.column_begin;
  const auto size = static_cast<int64_t>(w.job.row_elements());
  // Whole tiles, or two runs would add to the same sums: the plan may be one of another vector's width.
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t most = core::ceil_div(w.job.config.run, 3 * lanes) * 3 * lanes;
  for (int64_t block = block_begin; raw && block < block_end; ++block) {
    if (ReadInPlace(w, block)) continue;
    const BlockRows<T> rows = RowsOf(w, depth, block);
    simd::HWY_NAMESPACE::PackRows(rows.at, w.job.problem.k, depth.channels(), depth.tap_begin, depth.taps(),
                                  w.rows + (block - block_begin) * size);
  }
  bool nan = false;
  for (ColumnRun run{0, 0}; run.begin < columns; run.begin = run.end) {
    const bool all = columns - run.begin < most + kColumnAlign;  // no run of a vector alone
    run.end = all ? columns : run.begin + most;
    for (int64_t block = block_begin; block < block_end; ++block) {
      if (raw) {
        const A* packed = w.rows + (block - block_begin) * size;
        nan = DoRawBlock(w, depth, block, run, packed, ahead, last) || nan;
      } else {
        DoBlock(w, depth, block, run, PackedRows<A>{PackedOf(w, depth, block)}, ahead, last);
      }
    }
  }
  return nan;
}

template <class T, class A>
HWY_INLINE bool DoDepth(const Worker<T, A>& w, const Depth& depth, const T* dy, bool last) {
  const SplitPanel& s = w.job.split;
  const T* group = dy + w.task.group * w.job.cout * s.channel_step;
  if (s.tiled) {
    DoStrips(w, depth, group + depth.co_begin * s.channel_step, last);
    return false;
  }
  for (int64_t co = depth.co_begin; co < depth.co_end; ++co) {
    LoadChannel(s, w.task.column_begin, w.task.column_end, depth.tap_begin, depth.tap_end,
                group + co * s.channel_step, w.panel + (co - depth.co_begin) * s.channel());
  }
  // The next panel: other channels of the same columns, or the columns of the next task.
  const bool more = depth.co_end < w.job.cout;
  const int64_t begin = more ? w.task.column_begin : w.task.column_end;
  const int64_t panel = core::ceil_div(w.task.column_end - w.task.column_begin, kColumnAlign) * kColumnAlign;
  const int64_t end = std::min(begin + panel + s.halo, s.columns);
  const int64_t from = more ? depth.co_end : 0, channels = std::min(w.job.cout - from, w.job.config.co_block);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t tiles = core::ceil_div(w.task.column_end - w.task.column_begin, 3 * lanes);
  PanelAhead<T> ahead(s, group + from * s.channel_step, channels, begin, end,
                      tiles * (w.task.block_end - w.task.block_begin));
  bool nan = false;
  for (int64_t block = w.task.block_begin; block < w.task.block_end; block += w.job.config.pass_blocks) {
    const int64_t block_end = std::min(w.task.block_end, block + w.job.config.pass_blocks);
    nan = DoPass(w, depth, block, block_end, ahead, last) || nan;
  }
  return nan;
}

template <class T>
void Compute(const Job& job, const Task& task, const plan::Operands& in, const Weights& weights,
             void* scratch) {
  using A = Accumulator<T>;
  const Config& c = job.config;
  const core::Problem& p = job.problem;
  A* panel = static_cast<A*>(scratch);
  A* sums = panel + job.panel_elements();
  const A* packed = static_cast<const A*>(weights.packed);
  const T* raw = static_cast<const T*>(weights.raw);
  const Worker<T, A> w{job,
                       task,
                       packed == nullptr ? nullptr : packed + task.group * c.blocks * kRows * job.cout * p.k,
                       raw == nullptr ? nullptr : raw + task.group * job.cin * job.cout * p.k,
                       p.has_bias ? in.bias : nullptr,
                       static_cast<T*>(in.output),
                       panel,
                       sums,
                       sums + job.sum_elements(),
                       job.sums_line(),
                       inside(job)};
  const T* dy = static_cast<const T*>(in.grad_output);
  bool nan = false;
  for (int64_t tap = 0; tap < p.k; tap += job.split.tap_block) {
    for (int64_t co = 0; co < job.cout; co += c.co_block) {
      const Depth depth{co, std::min(job.cout, co + c.co_block), tap,
                        std::min(p.k, tap + job.split.tap_block)};
      nan = DoDepth(w, depth, dy, depth.co_end == job.cout && depth.tap_end == p.k) || nan;
    }
  }
  if (nan) weights.special->store(true, std::memory_order_relaxed);
}

// Returns whether a weight is infinite or NaN.
template <class T>
bool PackOne(const Job& job, int64_t index, const T* weight, void* packed) {
  using A = Accumulator<T>;
  const int64_t group = index / job.config.blocks, block = index % job.config.blocks, k = job.problem.k;
  const int64_t row = job.cout * k, last = job.cin - block * kRows - 1;
  const T* rows[kRows];
  for (int64_t r = 0; r < kRows; ++r) {
    rows[r] = weight + (group * job.cin + block * kRows + std::min(r, last)) * row;
  }
  A* to = static_cast<A*>(packed) + index * kRows * row;
  for (int64_t tap = 0; tap < k; tap += job.split.tap_block) {
    simd::HWY_NAMESPACE::PackRows(rows, k, job.cout, tap, std::min(job.split.tap_block, k - tap),
                                  to + tap * job.cout * kRows);
  }
  return !simd::HWY_NAMESPACE::AllFinite(hn::ScalableTag<A>(), to, kRows * row);
}

bool Pack(const Job& job, int64_t index, const void* weight, void* packed) {
  bool special = false;
  with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    special = PackOne(job, index, static_cast<const decltype(storage)*>(weight), packed);
  });
  return special;
}

void Run(const Job& job, const Task& task, const plan::Operands& in, const Weights& weights, void* scratch) {
  with_storage(job.problem.dtype,
               [&](auto storage) HWY_ATTR { Compute<decltype(storage)>(job, task, in, weights, scratch); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::strided {

HWY_EXPORT(Run);
HWY_EXPORT(Pack);

bool pack_block(const Job& job, int64_t index, const void* weight, void* packed) {
  return TCONV_DISPATCH(Pack)(job, index, weight, packed);
}

void compute(const Job& job, const Task& task, const plan::Operands& operands, const Weights& weights,
             void* scratch) {
  TCONV_DISPATCH(Run)(job, task, operands, weights, scratch);
}

}  // namespace tconv::cpu::strided
#endif
