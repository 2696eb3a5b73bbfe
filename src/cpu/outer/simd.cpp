#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/outer/contract.hpp"
#include "epilogue/rounding.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/outer/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/outer/microkernel-inl.hpp"
#include "cpu/outer/y_padded-inl.hpp"
#include "cpu/outer/y_panel-inl.hpp"
#include "cpu/simd/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::outer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, class A>
struct Worker {
  const Job& job;
  const Task& task;
  const T* x;  // of the group, in sample 0
  T* dw;       // of the group
  A *y_panel, *x_panel, *sums;
  double* totals;  // null: there is one chunk
  int64_t totals_line;
  int64_t begin = 0, depth = 0;  // of the chunk
  bool first = true;             // chunk of its slab
  bool last = false;             // chunk of the only slab
  Range meet{};                  // positions where every (co, k) has a product
};

// Whether the values of a row that meet zeros of Y are finite.
template <class T, class A>
HWY_NOINLINE bool FiniteAtEnds(const Worker<T, A>& w, const A* x) {
  for (int64_t at = 0; at < w.depth; ++at) {
    const int64_t i = (w.begin + at) % w.job.problem.l;
    if ((i < w.meet.begin || i >= w.meet.end) && !std::isfinite(x[at])) return false;
  }
  return true;
}

// Loads X of a row block; rows that do not exist are zeros. Returns whether all values that meet zeros of Y
// are finite.
template <class T, class A>
HWY_INLINE bool LoadRows(const Worker<T, A>& w, int64_t row, int64_t rows, A* panel) {
  const hn::ScalableTag<A> d;
  const core::Problem& p = w.job.problem;
  const auto steps = p.x_steps();
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  bool finite = true;
  for (int64_t r = 0; r < kRows; ++r) {
    A* to = panel + r * w.job.x_line();
    if (r >= rows) {
      std::fill(to, to + w.depth, A(0));
      continue;
    }
    int64_t n = w.begin / p.l, i = w.begin % p.l;
    for (int64_t done = 0; done < w.depth; ++n, i = 0) {
      const int64_t run = std::min(w.depth - done, p.l - i);
      simd::HWY_NAMESPACE::CopyShort(w.x + n * steps[0] + (row + r) * steps[1] + i * steps[2], steps[2], run,
                                     to + done);
      done += run;
    }
    hn::StoreU(hn::Zero(d), d, to + w.depth);  // into the slack: whole vectors are quicker than their rest
    finite =
        finite && (simd::HWY_NAMESPACE::AllFinite(d, to, round_up(w.depth, lanes)) || FiniteAtEnds(w, to));
  }
  return finite;
}

// Row `row` of x in the chunk.
template <class T, class A>
HWY_INLINE void FetchRow(const Worker<T, A>& w, int64_t row) {
  const core::Problem& p = w.job.problem;
  const auto steps = p.x_steps();
  if (row >= w.task.row_end || steps[2] != 1) return;
  int64_t n = w.begin / p.l, i = w.begin % p.l;
  for (int64_t done = 0; done < w.depth; ++n, i = 0) {
    const int64_t run = std::min(w.depth - done, p.l - i);
    FetchLines(w.x + n * steps[0] + row * steps[1] + i, run);
    done += run;
  }
}

// Sums the products of one element that exist.
template <class T, class A>
HWY_NOINLINE A ExactSum(const Worker<T, A>& w, int64_t row, int64_t column) {
  const core::Problem& p = w.job.problem;
  const int64_t k = (w.task.column_begin + column) % p.k;
  const Range in = Inside(p, w.job.lout, k, 1);
  const A* y = w.y_panel + column / kTile * kTile * w.depth + column % kTile;
  A sum = 0;
  for (int64_t at = 0; at < w.depth; ++at) {
    const int64_t i = (w.begin + at) % p.l;
    if (i < in.begin || i >= in.end) continue;
    sum = std::fma(w.x_panel[row * w.job.x_line() + at], y[at * kTile], sum);
  }
  return sum;
}

// totals += sums, or the first ones: 0 + sums, which makes -0 a 0 as later sums do.
HWY_INLINE void AddTotals(const double* sums, int64_t count, bool first, double* totals) {
  for (int64_t i = 0; i < count; ++i) totals[i] = (first ? 0.0 : totals[i]) + sums[i];
}
HWY_INLINE void AddTotals(const float* sums, int64_t count, bool first, double* totals) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto before = first ? hn::Zero(d) : hn::LoadU(d, totals + i);
    hn::StoreU(hn::Add(before, hn::PromoteTo(d, hn::LoadU(narrow, sums + i))), d, totals + i);
  }
  for (; i < count; ++i) totals[i] = (first ? 0.0 : totals[i]) + static_cast<double>(sums[i]);
}

// out = totals + sums, rounded: the last chunk's totals are not kept.
template <class A, class T>
HWY_INLINE void StoreTotals(const A* sums, int64_t count, const double* totals, T* out) {
  int64_t i = 0;
  // Highway's DemoteTo makes an infinity the largest float32 in the scalar target.
  if constexpr (std::is_same_v<A, float> && std::is_same_v<T, float> && HWY_TARGET != HWY_SCALAR) {
    const hn::ScalableTag<double> d;
    const hn::Rebind<float, decltype(d)> narrow;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= count; i += lanes) {
      const auto all = hn::Add(hn::LoadU(d, totals + i), hn::PromoteTo(d, hn::LoadU(narrow, sums + i)));
      simd::HWY_NAMESPACE::StoreAs(narrow, hn::DemoteTo(narrow, all), out + i);
    }
  }
  for (; i < count; ++i) {
    out[i] = epilogue::HostRounding<T>::round_double(totals[i] + static_cast<double>(sums[i]));
  }
}

template <class T, class A>
HWY_INLINE double* TotalsAt(const Worker<T, A>& w, int64_t row, int64_t column) {
  return w.totals + (row - w.task.row_begin) * w.totals_line + column;
}

// Row blocks whose X is loaded.
struct RowBlocks {
  int64_t row, rows;
  bool exact[kBlocks];  // an infinity meets zeros of Y

  int64_t count() const { return core::ceil_div(rows, kRows); }
  int64_t rows_of(int64_t block) const { return std::min(kRows, rows - block * kRows); }
};

// Sums the columns [column, column + count) of a tile.
template <class T, class A>
HWY_INLINE void MultiplyTile(const Worker<T, A>& w, const RowBlocks& blocks, int64_t column, int64_t count,
                             int64_t vectors) {
  const A* y = w.y_panel + column / kTile * kTile * w.depth + column % kTile;
  const int64_t line = w.job.x_line();
  int64_t from = 0;
  do {  // once even without depth, to make zeros
    const int64_t depth = std::min(kPart, w.depth - from);
    for (int64_t b = 0; b < blocks.count(); ++b) {
      if (blocks.exact[b]) continue;
      MultiplyBlock(Block<A>{w.x_panel + b * kRows * line + from, line, y + from * kTile, depth,
                             w.sums + b * kRows * kTile, from > 0},
                    blocks.rows_of(b), vectors);
    }
    from += kPart;
  } while (from < w.depth);
  for (int64_t b = 0; b < blocks.count(); ++b) {
    for (int64_t r = b * kRows; blocks.exact[b] && r < std::min(blocks.rows, (b + 1) * kRows); ++r) {
      for (int64_t c = 0; c < count; ++c) w.sums[r * kTile + c] = ExactSum(w, r, column + c);
    }
  }
}

// The same, then adds to the totals or stores in dw. Totals lie in L3, so they are prefetched.
template <class T, class A>
HWY_INLINE void DoTile(const Worker<T, A>& w, const RowBlocks& blocks, int64_t column, int64_t count,
                       int64_t vectors) {
  for (int64_t r = 0; w.totals != nullptr && r < blocks.rows; ++r) {
    FetchLines(TotalsAt(w, blocks.row + r, column), count);
  }
  MultiplyTile(w, blocks, column, count, vectors);
  for (int64_t r = 0; r < blocks.rows; ++r) {
    const A* sums = w.sums + r * kTile;
    T* dw = w.dw + (blocks.row + r) * w.job.columns + w.task.column_begin + column;
    if (w.totals != nullptr && w.last) {
      StoreTotals(sums, count, TotalsAt(w, blocks.row + r, column), dw);
    } else if (w.totals != nullptr) {
      AddTotals(sums, count, w.first, TotalsAt(w, blocks.row + r, column));
    } else {
      simd::HWY_NAMESPACE::NarrowRow(hn::ScalableTag<A>(), sums, count, dw);
    }
  }
}

template <class T, class A>
HWY_INLINE RowBlocks LoadBlocks(const Worker<T, A>& w, int64_t row) {
  RowBlocks blocks{row, std::min(kBlocks * kRows, w.task.row_end - row), {}};
  for (int64_t b = 0; b < blocks.count(); ++b) {
    A* panel = w.x_panel + b * kRows * w.job.x_line();
    blocks.exact[b] = !LoadRows(w, row + b * kRows, blocks.rows_of(b), panel);
  }
  return blocks;
}

template <class T, class A>
HWY_INLINE void DoChunk(const Worker<T, A>& w) {
  const int64_t columns = w.task.column_end - w.task.column_begin;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  for (int64_t row = w.task.row_begin; row < w.task.row_end; row += kBlocks * kRows) {
    const RowBlocks blocks = LoadBlocks(w, row);
    int64_t fetched = row + kBlocks * kRows;  // of the next blocks, four rows with each tile
    for (int64_t column = 0; column < columns;) {
      for (int64_t r = 0; r < 4 && fetched < row + 2 * kBlocks * kRows; ++r) FetchRow(w, fetched++);
      const int64_t in_tile = std::min(columns - column, kTile - column % kTile);
      const int64_t vectors = std::min<int64_t>(3, core::ceil_div(in_tile, lanes));
      const int64_t count = std::min(vectors * lanes, in_tile);
      DoTile(w, blocks, column, count, vectors);
      column += count;
    }
  }
}

template <class T>
void Compute(const Job& job, const Task& task, const plan::Operands& in, void* panel, double* totals,
             double* partials) {
  using A = Accumulator<T>;
  const core::Problem& p = job.problem;
  A* y_panel = static_cast<A*>(panel);
  A* x_panel = y_panel + job.config.panel_columns * job.config.chunk + kSlack;
  const T* dy = static_cast<const T*>(in.grad_output) + task.group * job.cout * p.y_steps()[1];
  Worker<T, A> w{job,
                 task,
                 static_cast<const T*>(in.x) + task.group * job.cin * p.x_steps()[1],
                 static_cast<T*>(in.output) + task.group * job.cin * job.columns,
                 y_panel,
                 x_panel,
                 x_panel + kBlocks * kRows * job.x_line(),
                 job.single() ? nullptr : totals,
                 job.config.panel_columns};
  w.meet = WhereAllMeet(job, task);
  if (partials != nullptr) {  // a slab's totals lie in its part of the workspace
    w.totals_line = job.columns;
    w.totals = partials + task.slab * job.problem.weight_elements() +
               (task.group * job.cin + task.row_begin) * job.columns + task.column_begin;
  }
  const int64_t slab = job.config.chunk * job.config.chunks_per_slab;
  const int64_t end = std::min(job.depth, (task.slab + 1) * slab);
  w.begin = task.slab * slab;
  do {  // once even without depth, to store zeros
    w.depth = std::min(end - w.begin, job.config.chunk);
    w.last = partials == nullptr && w.begin + w.depth == end;
    LoadY(job, task, dy, w.begin, w.begin + w.depth, y_panel, w.sums + kBlocks * kRows * kTile);
    DoChunk(w);
    w.begin += w.depth;
    w.first = false;
  } while (w.begin < end);
}

void Run(const Job& job, const Task& task, const plan::Operands& in, void* panel, double* totals,
         double* partials) {
  with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    Compute<decltype(storage)>(job, task, in, panel, totals, partials);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::outer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::outer {

HWY_EXPORT(Run);

void compute(const Job& job, const Task& task, const plan::Operands& operands, void* panel, double* totals,
             double* partials) {
  TCONV_DISPATCH(Run)(job, task, operands, panel, totals, partials);
}

}  // namespace tconv::cpu::outer
#endif
