#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/weight/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/weight/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/simd/tiles-inl.hpp"
#include "cpu/strided/phases-inl.hpp"
#include "cpu/weight/dots-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::weight {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, class A>
struct Worker {
  const Job& job;
  const Task& task;
  const T *x, *dy;  // of the group, in sample 0
  A *y_panel, *x_panel;
  double* totals;
  int64_t begin = 0, end = 0;  // columns of the chunk

  int64_t taps() const { return task.tap_end - task.tap_begin; }
  int64_t width() const { return (task.co_end - task.co_begin) * taps(); }  // columns of the totals
};

// One row of x: zeros between samples and up to the next 16 columns.
template <class T, class A>
HWY_INLINE void LoadRow(const Worker<T, A>& w, const T* row, A* to) {
  const hn::ScalableTag<A> d;
  const core::Problem& p = w.job.problem;
  const auto steps = p.x_steps();
  const int64_t period = w.job.split.period, count = core::ceil_div(w.end - w.begin, 16) * 16;
  int64_t sample = w.begin / period, place = w.begin % period;
  for (int64_t done = 0; done < count; ++sample, place = 0) {
    const int64_t run = std::min(count - done, period - place);
    const int64_t real = sample < p.n ? std::clamp<int64_t>(p.l - place, 0, run) : 0;
    if (real > 0)
      simd::HWY_NAMESPACE::WidenRow(d, row + sample * steps[0] + place * steps[2], steps[2], real, to + done);
    std::fill(to + done + real, to + done + run, A(0));
    done += run;
  }
}

// Sums of one (ci, co, k) over the products of the chunk that exist.
template <class T, class A>
double ExactDot(const Worker<T, A>& w, int64_t ci, int64_t co, int64_t k) {
  const core::Problem& p = w.job.problem;
  const auto steps = p.x_steps();
  const int64_t period = w.job.split.period, at = k * p.dilation - p.padding;
  A sum = 0;
  for (int64_t column = w.begin; column < w.end; ++column) {
    const int64_t n = column / period, i = column % period;
    if (i >= p.l || n >= p.n) continue;
    const int64_t o = p.stride * i + at;
    if (o < 0 || o >= w.job.lout) continue;
    sum = std::fma(
        static_cast<A>(widen(w.x[n * steps[0] + ci * steps[1] + i * steps[2]])),
        static_cast<A>(widen(
            w.dy[n * w.job.split.sample_step + co * w.job.split.channel_step + o * w.job.split.place_step])),
        sum);
  }
  return static_cast<double>(sum);
}

// Columns [column, column + count) of the totals for `rows` rows from `row` on; up to 6 columns.
template <class T, class A>
HWY_INLINE void DoTile(const Worker<T, A>& w, int64_t row, int64_t rows, int64_t column, int64_t count,
                       bool finite) {
  const Task& t = w.task;
  const int64_t width = w.width(), taps = w.taps();
  double* to = w.totals + row * width + column;
  if (!finite) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < count; ++c) {
        to[r * width + c] += ExactDot(w, t.ci_begin + row + r, t.co_begin + (column + c) / taps,
                                      t.tap_begin + (column + c) % taps);
      }
    }
    return;
  }
  Columns<A> y;
  for (int64_t c = 0; c < kTileColumns; ++c) {
    const int64_t at = column + std::min(c, count - 1);  // those beyond are dropped
    y.at[c] = w.y_panel + at / taps * w.job.split.channel() +
              w.job.split.offsets[static_cast<std::size_t>(t.tap_begin + at % taps)];
  }
  double sums[4][kTileColumns] = {};
  const int64_t depth = core::ceil_div(w.end - w.begin, 16) * 16;
  AddDots(rows, w.x_panel + row * w.job.x_line(), w.job.x_line(), y, depth, sums);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < count; ++c) to[r * width + c] += sums[r][c];
  }
}

// Whether the columns of a tile read channels of dy that are finite; one flag a channel.
HWY_INLINE bool ColumnsFinite(const bool* finite, int64_t column, int64_t count, int64_t taps) {
  return std::all_of(finite + column / taps, finite + (column + count - 1) / taps + 1,
                     [](bool f) { return f; });
}

template <class T, class A>
HWY_INLINE void DoChunk(const Worker<T, A>& w, bool* flags) {
  const hn::ScalableTag<A> d;
  const Job& job = w.job;
  const Task& t = w.task;
  const int64_t cis = t.ci_end - t.ci_begin, cos = t.co_end - t.co_begin, width = w.width();
  bool* x_finite = flags;
  bool* y_finite = flags + cis;
  for (int64_t co = 0; co < cos; ++co) {
    A* to = w.y_panel + co * job.split.channel();
    strided::HWY_NAMESPACE::LoadChannel(job.split, w.begin, w.end, t.tap_begin, t.tap_end,
                                        w.dy + (t.co_begin + co) * job.split.channel_step, to);
    // Between a channel's lines lies what earlier chunks left; each line by itself.
    const int64_t lines = job.split.expanded ? w.taps() : job.split.lines;
    const int64_t count = core::ceil_div(w.end - w.begin, 16) * 16 + job.split.halo;
    y_finite[co] = true;
    for (int64_t line = 0; line < lines; ++line) {
      y_finite[co] = simd::HWY_NAMESPACE::AllFinite(d, to + line * job.split.line, count) && y_finite[co];
    }
  }
  for (int64_t ci = 0; ci < cis; ++ci) {
    A* to = w.x_panel + ci * job.x_line();
    LoadRow(w, w.x + (t.ci_begin + ci) * job.problem.x_steps()[1], to);
    x_finite[ci] = simd::HWY_NAMESPACE::AllFinite(d, to, core::ceil_div(w.end - w.begin, 16) * 16);
  }
  for (int64_t row = 0; row < cis;) {
    int64_t rows = kTileRows;
    while (rows > cis - row) rows /= 2;
    const bool rows_finite = std::all_of(x_finite + row, x_finite + row + rows, [](bool f) { return f; });
    for (int64_t column = 0; column < width; column += kTileColumns) {
      const int64_t count = std::min(kTileColumns, width - column);
      DoTile(w, row, rows, column, count, rows_finite && ColumnsFinite(y_finite, column, count, w.taps()));
    }
    row += rows;
  }
}

template <class T>
void Compute(const Job& job, const Task& task, const plan::Operands& in, void* panel, double* totals,
             bool* flags) {
  using A = Accumulator<T>;
  const core::Problem& p = job.problem;
  A* y_panel = static_cast<A*>(panel);
  Worker<T, A> w{job,
                 task,
                 static_cast<const T*>(in.x) + task.group * job.cin * p.x_steps()[1],
                 static_cast<const T*>(in.grad_output) + task.group * job.cout * job.split.channel_step,
                 y_panel,
                 y_panel + job.config.co_block * job.split.channel(),
                 totals};
  std::fill(totals, totals + (task.ci_end - task.ci_begin) * w.width(), 0.0);
  const int64_t slab = job.config.chunk * job.config.chunks_per_slab;
  const int64_t end = std::min(job.split.columns, (task.slab + 1) * slab);
  for (w.begin = task.slab * slab; w.begin < end; w.begin = w.end) {
    w.end = std::min(end, w.begin + job.config.chunk);
    DoChunk(w, flags);
  }
}

void Run(const Job& job, const Task& task, const plan::Operands& in, void* panel, double* totals,
         bool* flags) {
  with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    Compute<decltype(storage)>(job, task, in, panel, totals, flags);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::weight
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::weight {

HWY_EXPORT(Run);

void compute(const Job& job, const Task& task, const plan::Operands& operands, void* panel, double* totals,
             bool* flags) {
  TCONV_DISPATCH(Run)(job, task, operands, panel, totals, flags);
}

}  // namespace tconv::cpu::weight
#endif
