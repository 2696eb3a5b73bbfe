#include <algorithm>
#include <array>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/outer/contract.hpp"
#include "cpu/simd/storage.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/outer/outer.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/dense/microkernel-inl.hpp"
#include "cpu/simd/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::outer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using dense::kMaxTile;
using dense::kRows;

template <class T, class A>
struct Worker {
  const Job& job;
  const Task& task;
  const T *x, *dy;  // of the group, in sample 0
  T* dw;            // of the group
  A *y_panel, *x_panel, *sums;
  std::array<int64_t, 3> x_steps, y_steps;
};

// The taps of position i that meet dy: [begin, end).
struct Taps {
  int64_t begin, end;
};
HWY_INLINE Taps TapsOf(const Job& job, int64_t i) {
  const core::Problem& p = job.problem;
  const int64_t first = p.stride * i - p.padding;
  const int64_t begin = first >= 0 ? 0 : std::min(p.k, core::ceil_div(-first, p.dilation));
  const int64_t end = first >= job.lout ? 0 : (job.lout - 1 - first) / p.dilation + 1;
  return {begin, std::clamp(end, begin, p.k)};
}

// One line of Y; returns whether every (co, k) has a product.
template <class T, class A>
HWY_INLINE bool LoadLine(const Worker<T, A>& w, int64_t n, int64_t i, A* to) {
  const core::Problem& p = w.job.problem;
  const Taps taps = TapsOf(w.job, i);
  const int64_t step = p.dilation * w.y_steps[2];
  const T* sample = w.dy + n * w.y_steps[0] + (p.stride * i - p.padding) * w.y_steps[2];
  int64_t co = w.task.column_begin / p.k, k = w.task.column_begin % p.k;
  for (int64_t left = w.task.column_end - w.task.column_begin; left > 0; ++co, k = 0) {
    const int64_t end = std::min(p.k, k + left);
    const T* row = sample + co * w.y_steps[1];
    left -= end - k;
    for (; k < std::min(end, taps.begin); ++k) *to++ = A(0);
    for (; k < std::min(end, taps.end); ++k) *to++ = static_cast<A>(widen(row[k * step]));
    for (; k < end; ++k) *to++ = A(0);
  }
  return taps.begin == 0 && taps.end == p.k;
}

// X of a row block; rows that do not exist are zeros. Returns whether all is finite.
template <class T, class A>
HWY_INLINE bool LoadRows(const Worker<T, A>& w, int64_t block) {
  const core::Problem& p = w.job.problem;
  const int64_t rows = std::min(kRows, w.job.cin - block * kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    A* to = w.x_panel + r;
    const T* row = w.x + (block * kRows + std::min(r, rows - 1)) * w.x_steps[1];
    for (int64_t n = 0; n < (w.job.depth > 0 ? p.n : 0); ++n) {
      for (int64_t i = 0; i < p.l; ++i, to += kRows) {
        *to = static_cast<A>(widen(row[n * w.x_steps[0] + i * w.x_steps[2]]));
      }
    }
  }
  return simd::HWY_NAMESPACE::AllFinite(hn::ScalableTag<A>(), w.x_panel, w.job.depth * kRows);
}

// The products of one element that exist.
template <class T, class A>
HWY_NOINLINE A ExactSum(const Worker<T, A>& w, int64_t row, int64_t column) {
  const core::Problem& p = w.job.problem;
  const int64_t k = (w.task.column_begin + column) % p.k;
  A sum = 0;
  for (int64_t at = 0; at < w.job.depth; ++at) {
    const Taps taps = TapsOf(w.job, at % p.l);
    if (k < taps.begin || k >= taps.end) continue;
    sum = std::fma(w.x_panel[at * kRows + row], w.y_panel[at * w.job.pitch() + column], sum);
  }
  return sum;
}

template <class T, class A>
HWY_INLINE void DoTile(const Worker<T, A>& w, int64_t block, int64_t column, int64_t count, int64_t vecs,
                       bool exact) {
  const int64_t rows = std::min(kRows, w.job.cin - block * kRows);
  if (exact) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < count; ++c) w.sums[r * kMaxTile + c] = ExactSum(w, r, column + c);
    }
  } else {
    dense::HWY_NAMESPACE::Tile<A> t{};
    t.weights = w.x_panel;
    t.panel = w.y_panel + column;
    t.line = w.job.pitch();
    t.channels = w.job.depth;
    t.taps = 1;
    t.sums = w.sums;
    t.sums_line = kMaxTile;
    dense::HWY_NAMESPACE::MultiplyBlock(t, rows, vecs);
  }
  for (int64_t r = 0; r < rows; ++r) {
    T* row = w.dw + (block * kRows + r) * w.job.columns + w.task.column_begin + column;
    simd::HWY_NAMESPACE::NarrowRow(hn::ScalableTag<A>(), w.sums + r * kMaxTile, count, row);
  }
}

template <class T>
void Compute(const Job& job, const Task& task, const plan::Operands& in, void* scratch) {
  using A = Accumulator<T>;
  const core::Problem& p = job.problem;
  const auto x_steps = p.x_steps(), y_steps = p.y_steps();
  A* y_panel = static_cast<A*>(scratch);
  A* x_panel = y_panel + job.depth * job.pitch();
  const Worker<T, A> w{job,
                       task,
                       static_cast<const T*>(in.x) + task.group * job.cin * x_steps[1],
                       static_cast<const T*>(in.grad_output) + task.group * job.cout * y_steps[1],
                       static_cast<T*>(in.output) + task.group * job.cin * job.columns,
                       y_panel,
                       x_panel,
                       x_panel + job.depth * kRows,
                       x_steps,
                       y_steps};
  const int64_t columns = task.column_end - task.column_begin;
  bool whole = true;
  for (int64_t at = 0; at < job.depth; ++at) {
    A* line = y_panel + at * job.pitch();
    whole = LoadLine(w, at / p.l, at % p.l, line) && whole;
    std::fill(line + columns, line + job.pitch(), A(0));
  }
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  for (int64_t block = task.block_begin; block < task.block_end; ++block) {
    const bool exact = !LoadRows(w, block) && !whole;
    for (int64_t column = 0; column < columns;) {
      const int64_t left = core::ceil_div(columns - column, lanes);
      const int64_t vecs = left == 4 ? 2 : std::min<int64_t>(3, left);
      const int64_t count = std::min(vecs * lanes, columns - column);
      DoTile(w, block, column, count, vecs, exact);
      column += count;
    }
  }
}

void Run(const Job& job, const Task& task, const plan::Operands& in, void* scratch) {
  with_storage(job.problem.dtype,
               [&](auto storage) HWY_ATTR { Compute<decltype(storage)>(job, task, in, scratch); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::outer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::outer {

HWY_EXPORT(Run);

void compute(const Job& job, const Task& task, const plan::Operands& operands, void* scratch) {
  TCONV_DISPATCH(Run)(job, task, operands, scratch);
}

}  // namespace tconv::cpu::outer
#endif
