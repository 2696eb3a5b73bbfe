#include <algorithm>
#include <cmath>
#include <limits>

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
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::weight {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Columns up to which rows of x are read in place: with 24 that takes 0.85 of the time with copies, with 28
// and 48 0.95 and 0.97, with 1,280 1.03 (one thread, Intel Xeon).
constexpr int64_t kFewColumns = 48;
// Rows of x up to which dy at stride 1 is read in place: 12 layers on a Zen 5 take 0.88 of the time in the
// geometric mean with AVX-512, whatever their rows, and 0.92 with AVX2 up to 16 rows, 1.08 with 32. With a
// single tile of columns memory is read faster by the copy: 512 groups of one channel, K3 L36000, take 1.2
// times as long in place.
inline constexpr int64_t kRowsInPlace = TCONV_32_REGISTERS ? 32 : 16;

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

// Sums the products of one (ci, co, k) that exist in the chunk.
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

// A column (co, tap) of the panel. It is counted up, because a division takes as long as eight vectors of
// products.
template <class A>
struct Place {
  const A* channel;
  int64_t tap;
};

// dy of the chunk, split by phase: where it lies or as a copy.
template <class A>
struct LinesOfDy {
  const A* first;
  int64_t channel;  // elements from one channel to the next
};

// A sum that is not finite may come from a zero that stands for no product: it is summed again.
template <class T, class A>
HWY_NOINLINE void Repair(const Worker<T, A>& w, int64_t row, int64_t rows, int64_t column, int64_t count,
                         double (*sums)[kTileColumns]) {
  const Task& t = w.task;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < count; ++c) {
      if (std::isfinite(sums[r][c])) continue;
      const int64_t of = column + c;
      sums[r][c] = ExactDot(w, t.ci_begin + row + r, t.co_begin + of / w.taps(), t.tap_begin + of % w.taps());
    }
  }
}

// Sums up to 6 columns of the totals, [column, column + count), the first at `place`, for `rows` rows from
// `row` on.
template <class T, class A>
HWY_INLINE void DoTile(const Worker<T, A>& w, const Rows<A>& x, int64_t channel, int64_t row, int64_t rows,
                       int64_t column, int64_t count, Place<A>& place) {
  const Task& t = w.task;
  const int64_t width = w.width(), taps = w.taps();
  double* to = w.totals + row * width + column;
  Columns<A> y;
  for (int64_t c = 0; c < kTileColumns; ++c) {
    if (c >= count) {  // dropped
      y.at[c] = y.at[c - 1];
      continue;
    }
    y.at[c] = place.channel + w.job.split.offsets[static_cast<std::size_t>(t.tap_begin + place.tap)];
    if (++place.tap == taps) place.tap = 0, place.channel += channel;
  }
  double sums[4][kTileColumns] = {};
  AddDots(rows, x.from(row), y, sums);
  bool right = true;
  for (const auto& of_row : sums) {
    for (const double sum : of_row) right &= std::abs(sum) <= std::numeric_limits<double>::max();
  }
  if (!right) [[unlikely]]
    Repair(w, row, rows, column, count, sums);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < count; ++c) to[r * width + c] += sums[r][c];
  }
}

// x of the chunk, where it lies or as a copy. If each row meets only a few columns, a copy costs more than it
// saves.
template <class T, class A>
HWY_INLINE Rows<A> LoadX(const Worker<T, A>& w) {
  const Job& job = w.job;
  const Task& t = w.task;
  const auto steps = job.problem.x_steps();
  const int64_t sample = w.begin / job.split.period, place = w.begin % job.split.period;
  const int64_t count = w.end - w.begin, whole = count / 16 * 16;
  if constexpr (std::is_same_v<T, A>) {
    if (steps[2] == 1 && w.width() <= kFewColumns && place + count <= job.problem.l) {
      const T* const first = w.x + sample * steps[0] + t.ci_begin * steps[1] + place;
      for (int64_t ci = 0; count > whole && ci < t.ci_end - t.ci_begin; ++ci) {
        A* const tail = w.x_panel + 16 * ci;
        std::fill(std::copy_n(first + ci * steps[1] + whole, count - whole, tail), tail + 16, A(0));
      }
      return {first, steps[1], whole, count > whole ? w.x_panel : nullptr, whole, whole};
    }
  }
  for (int64_t ci = t.ci_begin; ci < t.ci_end; ++ci) {
    LoadRow(w, w.x + ci * steps[1], w.x_panel + (ci - t.ci_begin) * job.x_line());
  }
  const int64_t columns = core::ceil_div(count, 16) * 16;
  if (!job.passes_gaps()) return {w.x_panel, job.x_line(), columns, nullptr, columns, columns};
  return {w.x_panel, job.x_line(), columns, nullptr, job.used, job.split.period};
}

// At stride 1 a line is a part of a row of dy. Inlined, it takes registers from the tiles: 3 -> 1, K7 s4 1.1
// times as long.
template <class T, class A>
HWY_NOINLINE LinesOfDy<A> LoadDy(const Worker<T, A>& w) {
  const strided::SplitPanel& s = w.job.split;
  const Task& t = w.task;
  if constexpr (std::is_same_v<T, A>) {
    const int64_t sample = w.begin / s.period, place = w.begin % s.period, count = w.end - w.begin;
    const int64_t first = place + s.taps.front().shift, last = place + s.taps.back().shift;
    const bool inside = place + count <= s.l && first >= 0 && last + core::ceil_div(count, 16) * 16 <= s.lout;
    const bool pays = t.ci_end - t.ci_begin <= kRowsInPlace && w.width() > kTileColumns;
    if (s.contiguous() && !s.expanded && inside && pays) {
      return {w.dy + sample * s.sample_step + t.co_begin * s.channel_step + first, s.channel_step};
    }
  }
  for (int64_t co = t.co_begin; co < t.co_end; ++co) {
    strided::HWY_NAMESPACE::LoadChannel(s, w.begin, w.end, t.tap_begin, t.tap_end, w.dy + co * s.channel_step,
                                        w.y_panel + (co - t.co_begin) * s.channel());
  }
  return {w.y_panel, s.channel()};
}

// Prefetches the next chunk while this one is multiplied, a few lines at a time: rows lie far apart, and a
// hardware prefetcher takes about the length of a row's chunk to notice it.
template <class T, class A>
class Fetcher {
 public:
  Fetcher(const Worker<T, A>& w, int64_t end, int64_t steps) {
    const Job& job = w.job;
    const core::Problem& p = job.problem;
    const int64_t sample = w.end / job.split.period, place = w.end % job.split.period;
    const int64_t columns = std::min({end - w.end, w.end - w.begin, p.l - place});
    if (columns <= 0 || p.x_steps()[2] != 1 || job.split.place_step != 1) return;
    x_step_ = p.x_steps()[1], y_step_ = job.split.channel_step;
    at_ = w.x + sample * p.x_steps()[0] + w.task.ci_begin * x_step_ + place;
    rows_ = w.task.ci_end - w.task.ci_begin;
    x_lines_ = core::ceil_div(columns, kLine);
    const int64_t first = std::clamp<int64_t>(p.stride * place - p.padding, 0, job.lout);
    const int64_t last = std::min(first + p.stride * columns, job.lout);
    y_ = w.dy + sample * job.split.sample_step + w.task.co_begin * y_step_ + first;
    y_lines_ = core::ceil_div(last - first, kLine);
    left_ = rows_ * x_lines_ + (w.task.co_end - w.task.co_begin) * y_lines_;
    each_ = core::ceil_div(left_, steps);
  }

  // One step's share.
  HWY_INLINE void Fetch() {
    for (int64_t i = std::min(each_, left_); i > 0; --i, --left_) {
      hwy::Prefetch(at_ + line_ * kLine);
      if (++line_ < x_lines_) continue;
      line_ = 0;
      at_ += x_step_;
      if (--rows_ == 0) at_ = y_, x_lines_ = y_lines_, x_step_ = y_step_;  // on to the rows of dy
    }
  }

 private:
  static constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));  // elements of a cache line
  const T *at_ = nullptr, *y_ = nullptr;  // the row that is fetched; the first one of dy
  int64_t x_step_ = 0, y_step_ = 0;
  int64_t rows_ = 0, x_lines_ = 0, y_lines_ = 0, line_ = 0, left_ = 0, each_ = 0;
};

template <class T, class A>
HWY_INLINE void DoChunk(const Worker<T, A>& w, int64_t slab_end) {
  const Task& t = w.task;
  const int64_t cis = t.ci_end - t.ci_begin, width = w.width();
  const LinesOfDy<A> dy = LoadDy(w);
  const Rows<A> x = LoadX(w);
  const int64_t tiles = core::ceil_div(cis, kTileRows) * core::ceil_div(width, kTileColumns);
  Fetcher<T, A> next(w, slab_end, tiles);
  for (int64_t row = 0; row < cis;) {
    int64_t rows = kTileRows;
    while (rows > cis - row) rows /= 2;
    Place<A> place{dy.first, 0};
    for (int64_t column = 0; column < width; column += kTileColumns) {
      next.Fetch();
      DoTile(w, x, dy.channel, row, rows, column, std::min(kTileColumns, width - column), place);
    }
    row += rows;
  }
}

template <class T>
void Compute(const Job& job, const Task& task, const plan::Operands& in, void* panel, double* totals) {
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
    DoChunk(w, end);
  }
}

void Run(const Job& job, const Task& task, const plan::Operands& in, void* panel, double* totals) {
  with_storage(job.problem.dtype,
               [&](auto storage) HWY_ATTR { Compute<decltype(storage)>(job, task, in, panel, totals); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::weight
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::weight {

HWY_EXPORT(Run);

void compute(const Job& job, const Task& task, const plan::Operands& operands, void* panel, double* totals) {
  TCONV_DISPATCH(Run)(job, task, operands, panel, totals);
}

}  // namespace tconv::cpu::weight
#endif
