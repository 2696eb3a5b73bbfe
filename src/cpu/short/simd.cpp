#include <algorithm>
#include <cstring>

#include "core/polyphase.hpp"
#include "cpu/short/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/short/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/short/lines-inl.hpp"
#include "cpu/simd/panel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::short_l::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

// A chunk's columns, split evenly into blocks.
struct Columns {
  int64_t count, blocks;
  bool wide;  // with narrower panels
  int64_t begin(int64_t block) const { return count * block / blocks; }
};

HWY_INLINE Columns ColumnsOf(const Job& job, int64_t chunk) {
  const core::Problem& p = job.problem;
  const int64_t samples = std::min(job.config.samples, p.n - chunk * job.config.samples);
  const int64_t count = samples * p.l;
  // Weights in place are read once for each block.
  const bool wide =
      !job.config.pack_panels && core::ceil_div(count, kWideColumns) < core::ceil_div(count, kPanelColumns);
  return {count, core::ceil_div(count, wide ? kWideColumns : kPanelColumns), wide};
}

template <class D>
HWY_INLINE int64_t WholeVectors(D d, int64_t rows) {
  return static_cast<int64_t>(hwy::RoundUpTo(static_cast<std::size_t>(rows), hn::Lanes(d)));
}

// The same number of neighbouring positions of each channel, by copies of one size.
template <std::size_t kCount, class A>
HWY_INLINE void CopyPositions(const A* HWY_RESTRICT x, int64_t x_pitch, int64_t channels, int64_t pitch,
                              A* HWY_RESTRICT out) {
  for (int64_t ci = 0; ci < channels; ++ci) {
    std::memcpy(out + ci * pitch, x + ci * x_pitch, kCount * sizeof(A));
  }
}

// `count` neighbouring positions of each channel. x_pitch, pitch: from a channel to the next.
template <class T, class A>
HWY_INLINE void StagePositions(const T* HWY_RESTRICT x, int64_t x_pitch, int64_t x_step, int64_t channels,
                               int64_t count, int64_t pitch, A* HWY_RESTRICT out) {
  if constexpr (std::is_same_v<T, A>) {
    if (x_step == 1 && count == 4) return CopyPositions<4>(x, x_pitch, channels, pitch, out);
    if (x_step == 1 && count == 5) return CopyPositions<5>(x, x_pitch, channels, pitch, out);
    if (x_step == 1 && count == 6) return CopyPositions<6>(x, x_pitch, channels, pitch, out);
    if (x_step == 1 && count == 8) return CopyPositions<8>(x, x_pitch, channels, pitch, out);
  }
  for (int64_t ci = 0; ci < channels; ++ci) {
    for (int64_t c = 0; c < count; ++c) out[ci * pitch + c] = widen(x[ci * x_pitch + c * x_step]);
  }
}

template <class T>
void Stage(const Job& job, const T* x, int64_t chunk, int64_t block, Accumulator<T>* staged) {
  const core::Problem& p = job.problem;
  const auto steps = p.x_steps();
  const Columns columns = ColumnsOf(job, chunk);
  if (block >= columns.blocks) return;
  const int64_t begin = columns.begin(block), end = columns.begin(block + 1), width = end - begin;
  Accumulator<T>* out = staged + begin * p.cin;
  for (int64_t column = begin; column < end;) {
    const int64_t m = column / p.l, i = column - m * p.l, count = std::min(p.l - i, end - column);
    const T* from = x + (chunk * job.config.samples + m) * steps[0] + i * steps[2];
    StagePositions(from, steps[1], steps[2], p.cin, count, width, out + (column - begin));
    column += count;
  }
}

// Rows (co, k) as rows (k, co).
template <class T>
HWY_INLINE void TurnRow(const T* HWY_RESTRICT w, int64_t channels, int64_t taps, T* HWY_RESTRICT out) {
  for (int64_t k = 0; k < taps; ++k) {
    for (int64_t c = 0; c < channels; ++c) out[k * channels + c] = w[c * taps + k];
  }
}

// Rows of `depth` channels, widened, as panels one after another in whole vectors. All panels but the last
// have `width` rows. taps: of rows that are turned, in `turned`; 0: none are.
template <class T, class D, class A>
HWY_INLINE void PackPanels(D d, const T* w, int64_t w_pitch, int64_t rows, int64_t left, int64_t width,
                           int64_t depth, int64_t taps, T* turned, A* panels) {
  for (int64_t ci = 0; ci < depth; ++ci) {
    const T* row = w + ci * w_pitch;
    if (taps > 0) {
      TurnRow(row, rows / taps, taps, turned);
      row = turned, left = rows;
    }
    for (int64_t r = 0; r < rows; r += width) {
      const int64_t wide = std::min(width, WholeVectors(d, rows - r));
      // Beyond the end, rows of other tasks do as well as zeros: nobody reads their sums.
      PackPanelRow(d, row + r, std::min(wide, left - r), wide, panels + r * depth + ci * wide);
    }
  }
}

// Where the weights that are read in place continue two panels later or, after the last panel, in the next
// channels. They come from beyond L2, in pieces too short for the prefetchers of a core. Nothing past the
// weights is read.
template <class T>
HWY_INLINE const T* RowsAhead(const T* w, int64_t w_pitch, int64_t width, int64_t r, int64_t rows,
                              int64_t depth) {
  int64_t at = r + 2 * width;
  if (at >= rows) at += depth * w_pitch - core::ceil_div(rows, width) * width;
  return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(w) +
                                    static_cast<std::uintptr_t>(at) * sizeof(T));
}

// Multiplies one panel of some channels with all columns. p points at the panel and at the first column's
// first channel; x of a block of `count` columns lies `count` times as far.
template <class D, class A, class W>
HWY_INLINE void PanelOfColumns(D d, const Columns& columns, const A* staged, int64_t cin, int64_t ci, A* tile,
                               int64_t vectors, PanelOperands<A, W>& p) {
  for (int64_t b = 0; b < columns.blocks; ++b) {
    const int64_t begin = columns.begin(b), count = columns.begin(b + 1) - begin;
    p.x = staged + begin * cin + ci * count;
    p.x_pitch = count;
    p.tile = tile + begin * p.tile_pitch;
    if (columns.wide) {
      WidePanelProduct<true>(d, p, count, vectors);
    } else {
      PanelProduct<true>(d, p, count, vectors);
    }
    p.ahead = nullptr;
  }
}

// tile[column][row] for the rows [row0, row0 + rows) of a group.
template <class T, class D, class A>
HWY_INLINE void Products(D d, const Job& job, const T* w, int64_t row0, int64_t rows, int64_t group,
                         const Columns& columns, const A* staged, A* panels, A* turned, A* tile) {
  const core::Problem& p = job.problem;
  const int64_t w_pitch = p.cout_per_group() * p.k, cin = p.cin_per_group(), ci0 = group * cin;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)),
                width = (columns.wide ? kWideVectors : kPanelVectors) * lanes;
  // Each block of columns converts the weights that it reads in place: cheap, except for float16 without
  // hardware.
  constexpr bool kCheap = TCONV_HAVE_F16C || !std::is_same_v<T, F16>;
  const int64_t left = (p.groups - group) * cin * w_pitch;  // weights from w on
  PanelOperands<A, T> raw{nullptr, 0, w_pitch, nullptr, 0, 0, 0, 1, nullptr, job.row_pitch, false};
  PanelOperands<A> packed{nullptr, 0, 0, nullptr, 0, 0, 0, 1, nullptr, job.row_pitch, false};
  for (int64_t from = 0; from < cin; from += job.config.depth) {
    const int64_t depth = std::min(job.config.depth, cin - from);
    const T* rows_w = w + from * w_pitch + row0;
    raw.depth = packed.depth = depth;
    raw.add = packed.add = from > 0;
    // The last vector of a row may read the next one's weights, but nothing beyond the last row.
    const int64_t end = (from + depth - 1) * w_pitch + row0 + WholeVectors(d, rows);
    const bool in_place = kCheap && !job.config.pack_panels && end <= left;
    if (!in_place) {
      PackPanels(d, rows_w, w_pitch, rows, w_pitch - row0, width, depth,
                 job.config.by_tap && p.k > 1 ? p.k : 0, reinterpret_cast<T*>(turned), panels);
    }
    for (int64_t r = 0; r < rows; r += width) {
      const int64_t wide = std::min(width, WholeVectors(d, rows - r)), vectors = wide / lanes;
      if (in_place) {
        raw.w = rows_w + r;
        if (job.config.fetch_ahead) raw.ahead = RowsAhead(rows_w, w_pitch, width, r, rows, depth);
        PanelOfColumns(d, columns, staged, p.cin, ci0 + from, tile + r, vectors, raw);
      } else {
        packed.w = panels + r * depth;
        packed.w_pitch = wide;
        PanelOfColumns(d, columns, staged, p.cin, ci0 + from, tile + r, vectors, packed);
      }
    }
  }
}

template <class T>
void RunTask(const Job& job, const plan::Operands& in, int64_t chunk, const Accumulator<T>* staged,
             int64_t task, Accumulator<T>* scratch) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const int64_t cout = p.cout_per_group(), cin = p.cin_per_group();
  const int64_t group = task / job.channel_blocks, first = task % job.channel_blocks * job.config.channels;
  const int64_t channels = std::min(job.config.channels, cout - first);
  const Columns columns = ColumnsOf(job, chunk);
  A* tile = scratch;
  A* panels = tile + (job.columns() + 1) * job.row_pitch;
  A* line = panels + job.config.depth * job.row_pitch;
  A* turned = line + job.line_elements();
  const T* w = static_cast<const T*>(in.weight) + group * cin * cout * p.k;
  Products<T>(d, job, w, first * p.k, channels * p.k, group, columns, staged, panels, turned, tile);
  for (int64_t m = 0; m < columns.count / p.l; ++m) {
    const int64_t n = chunk * job.config.samples + m, co = group * cout + first;
    const A* sample = tile + m * p.l * job.row_pitch;
    T* y = static_cast<T*>(in.output) + (n * p.cout + co) * job.lout;
    if (job.config.by_tap) {
      ChannelsByTap<T>(d, job, in, sample, co, channels, line, y);
      continue;
    }
    for (int64_t c = 0; c < channels; ++c, y += job.lout) {
      Channel(d, job, sample + c * p.k, start_of<T>(p.has_bias, in.bias, co + c), line, y);
    }
  }
}

void StageAny(const Job& job, const void* x, int64_t chunk, int64_t block, void* staged) {
  with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    using T = decltype(storage);
    Stage<T>(job, static_cast<const T*>(x), chunk, block, static_cast<Accumulator<T>*>(staged));
  });
}

void Run(const Job& job, const plan::Operands& in, int64_t chunk, const void* staged, int64_t task,
         void* scratch) {
  with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    using T = decltype(storage);
    using A = Accumulator<T>;
    RunTask<T>(job, in, chunk, static_cast<const A*>(staged), task, static_cast<A*>(scratch));
  });
}

int64_t Blocks(const Job& job) {
  return core::ceil_div(job.columns(), kPanelColumns);
}

}  // namespace tconv::cpu::short_l::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::short_l {

HWY_EXPORT(StageAny);
HWY_EXPORT(Run);
HWY_EXPORT(Blocks);

int64_t column_blocks(const Job& job) {
  return TCONV_DISPATCH(Blocks)(job);
}

void stage_columns(const Job& job, const void* x, int64_t chunk, int64_t block, void* staged) {
  TCONV_DISPATCH(StageAny)(job, x, chunk, block, staged);
}

void run_task(const Job& job, const plan::Operands& operands, int64_t chunk, const void* staged, int64_t task,
              void* scratch) {
  TCONV_DISPATCH(Run)(job, operands, chunk, staged, task, scratch);
}

}  // namespace tconv::cpu::short_l
#endif
