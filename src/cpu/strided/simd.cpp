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
#include "cpu/simd/tiles-inl.hpp"
#include "cpu/strided/phases-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Depth {
  int64_t co_begin, co_end, tap_begin, tap_end;
};

// Rows of C to dx; columns between samples are left out.
template <class T, class A>
HWY_INLINE void StoreBlock(const Job& job, const Task& task, int64_t block, int64_t column, int64_t columns,
                           const A* sums, int64_t sums_line, T* dx) {
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const int64_t period = job.split.period;
  int64_t sample = (task.column_begin + column) / period, place = (task.column_begin + column) % period;
  for (int64_t done = 0; done < columns; ++sample) {
    const int64_t run = std::min(columns - done, period - place), count = std::min(run, p.l - place);
    for (int64_t ci = block * kRows; count > 0 && ci < std::min(job.cin, (block + 1) * kRows); ++ci) {
      T* row = dx + (sample * p.cin + task.group * job.cin + ci) * p.l + place;
      simd::HWY_NAMESPACE::NarrowRow(d, sums + (ci - block * kRows) * sums_line + done, count, row);
    }
    done += run;
    place = 0;
  }
}

// What the tiles of a task share in one depth block.
template <class T, class A>
struct Worker {
  const Job& job;
  const Task& task;
  const A* weights;  // of the group
  const void* bias;  // null: none
  T* dx;
  A *panel, *sums;
  int64_t sums_line;  // of one depth block: a tile's; else the panel's
  const int64_t* offsets;
};

template <class T, class A>
HWY_INLINE void BeginAtBias(const Worker<T, A>& w, int64_t block, int64_t vecs, A* sums) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t row = 0; row < kRows; ++row, sums += w.sums_line) {
    const int64_t ci = std::min(block * kRows + row, w.job.cin - 1);  // rows that do not exist are dropped
    const auto bias = hn::Set(d, start_of<T>(true, w.bias, w.task.group * w.job.cin + ci));
    for (int64_t v = 0; v < vecs; ++v) hn::StoreU(bias, d, sums + v * lanes);
  }
}

template <class T, class A>
HWY_INLINE void DoTile(const Worker<T, A>& w, const Depth& depth, int64_t block, int64_t column,
                       int64_t columns, int64_t vecs, A* sums, bool last) {
  const Job& job = w.job;
  const int64_t taps = depth.tap_end - depth.tap_begin;
  dense::HWY_NAMESPACE::Tile<A> t{};
  t.weights = w.weights +
              (block * job.cout * job.problem.k + depth.tap_begin * job.cout + depth.co_begin * taps) * kRows;
  t.panel = w.panel + column;
  t.line = job.split.channel();
  t.channels = depth.co_end - depth.co_begin;
  t.taps = taps;
  t.sums = sums;
  t.sums_line = w.sums_line;
  t.add = depth.co_begin > 0 || depth.tap_begin > 0;
  if (!t.add && w.bias != nullptr) {
    BeginAtBias(w, block, vecs, sums);
    t.add = true;
  }
  t.tap_offsets = w.offsets + depth.tap_begin;
  dense::HWY_NAMESPACE::MultiplyBlock<true>(t, std::min(kRows, job.cin - block * kRows), vecs);
  if (last) StoreBlock(job, w.task, block, column, columns, sums, w.sums_line, w.dx);
}

template <class T, class A>
HWY_INLINE void DoDepth(const Worker<T, A>& w, const Depth& depth, const T* dy, bool one, bool last) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t line = w.job.split.channel();
  for (int64_t co = depth.co_begin; co < depth.co_end; ++co) {
    LoadChannel(w.job.split, w.task.column_begin, w.task.column_end, depth.tap_begin, depth.tap_end,
                dy + (w.task.group * w.job.cout + co) * w.job.split.channel_step,
                w.panel + (co - depth.co_begin) * line);
  }
  const int64_t columns = w.task.column_end - w.task.column_begin;
  for (int64_t block = w.task.block_begin; block < w.task.block_end; ++block) {
    A* sums = w.sums + (one ? 0 : (block - w.task.block_begin) * kRows * w.sums_line);
    for (int64_t column = 0; column < columns;) {
      const int64_t left = core::ceil_div(columns - column, lanes);
      const int64_t vecs = left == 4 ? 2 : std::min<int64_t>(3, left);  // 2 + 2 keeps more sums in flight
      const int64_t count = std::min(vecs * lanes, columns - column);
      DoTile(w, depth, block, column, count, vecs, sums + (one ? 0 : column), last);
      column += count;
    }
  }
}

template <class T>
void Compute(const Job& job, const Task& task, const plan::Operands& in, const void* packed, void* scratch) {
  using A = Accumulator<T>;
  const Config& c = job.config;
  const core::Problem& p = job.problem;
  const bool one = job.one_depth_block();
  const int64_t group_elements = c.blocks * kRows * job.cout * p.k;
  A* panel = static_cast<A*>(scratch);
  const Worker<T, A> w{job,
                       task,
                       static_cast<const A*>(packed) + task.group * group_elements,
                       p.has_bias ? in.bias : nullptr,
                       static_cast<T*>(in.output),
                       panel,
                       panel + job.panel_elements(),
                       one ? kMaxTile : core::ceil_div(c.panel_columns, kMaxTile) * kMaxTile,
                       job.split.offsets.data()};
  const T* dy = static_cast<const T*>(in.grad_output);
  for (int64_t tap = 0; tap < p.k; tap += job.split.tap_block) {
    for (int64_t co = 0; co < job.cout; co += c.co_block) {
      const Depth depth{co, std::min(job.cout, co + c.co_block), tap,
                        std::min(p.k, tap + job.split.tap_block)};
      DoDepth(w, depth, dy, one, depth.co_end == job.cout && depth.tap_end == p.k);
    }
  }
}

void Run(const Job& job, const Task& task, const plan::Operands& in, const void* packed, void* scratch) {
  with_storage(job.problem.dtype,
               [&](auto storage) HWY_ATTR { Compute<decltype(storage)>(job, task, in, packed, scratch); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::strided {

HWY_EXPORT(Run);

void compute(const Job& job, const Task& task, const plan::Operands& operands, const void* packed,
             void* scratch) {
  TCONV_DISPATCH(Run)(job, task, operands, packed, scratch);
}

}  // namespace tconv::cpu::strided
#endif
