#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/longk/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/longk/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/simd/panel-inl.hpp"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::longk::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

// Residues [r, r + rows) with the same number of taps.
struct Panel {
  int64_t r, rows, taps, vectors;
};

HWY_INLINE int64_t PanelsOf(int64_t vectors) {
  return core::ceil_div(vectors, int64_t{kPanelVectors});
}

// Panel `index` of the residues [begin, end), whose vectors are split evenly.
HWY_INLINE Panel PanelAmong(int64_t lanes, int64_t begin, int64_t end, int64_t taps, int64_t index) {
  const int64_t vectors = core::ceil_div(end - begin, lanes), count = PanelsOf(vectors);
  const int64_t first = vectors * index / count, last = vectors * (index + 1) / count;
  const int64_t r = begin + first * lanes;
  return {r, std::min(end, begin + last * lanes) - r, taps, last - first};
}

// The first K mod stride residues have one tap more than the others.
template <class D>
HWY_INLINE Panel PanelAt(D d, const Job& job, int64_t index) {
  const core::Problem& p = job.problem;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), longer = p.k % p.stride, taps = p.k / p.stride;
  const int64_t first = PanelsOf(core::ceil_div(longer, lanes));
  if (index < first) return PanelAmong(lanes, 0, longer, taps + 1, index);
  return PanelAmong(lanes, longer, p.stride, taps, index - first);
}

template <class D>
HWY_INLINE int64_t PanelCount(D d, const Job& job) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), longer = job.problem.k % job.problem.stride;
  return PanelsOf(core::ceil_div(longer, lanes)) +
         PanelsOf(core::ceil_div(job.problem.stride - longer, lanes));
}

// At most kPanelColumns consecutive q of one sample.
struct Block {
  int64_t n, q, columns;
};

HWY_INLINE Block BlockAt(const Job& job, int64_t index) {
  const int64_t count = job.blocks_per_sample, b = index % count, q = job.q_end - job.q_begin;
  return {index / count, job.q_begin + q * b / count, q * (b + 1) / count - q * b / count};
}

template <class T, class D, class A>
HWY_INLINE void Pack(D d, const Job& job, const T* w, const Panel& panel, int64_t depth, A* out) {
  const core::Problem& p = job.problem;
  const int64_t width = panel.vectors * static_cast<int64_t>(hn::Lanes(d));
  for (int64_t ci = 0; ci < depth; ++ci, w += p.cout_per_group() * p.k) {
    for (int64_t j = 0; j < panel.taps; ++j, out += width) {
      PackPanelRow(d, w + panel.r + j * p.stride, panel.rows, width, out);
    }
  }
}

// Prefetches the raw rows of the panel that is packed next, some of them with each block: they come from
// beyond L2.
template <class T>
struct Ahead {
  const T* w;
  int64_t rows, taps, stride, w_pitch;
  int64_t each;  // for each block
  int64_t at = 0;

  HWY_INLINE void Fetch(int64_t elements) {
    constexpr int64_t kLine = 64 / sizeof(T);
    for (const int64_t end = std::min(rows, at + each); at < end; ++at) {
      const T* row = w + at / taps * w_pitch + at % taps * stride;
      for (int64_t i = 0; i < elements; i += kLine) hwy::Prefetch(row + i);
    }
  }
};

// tile[q][r] for `count` blocks from `first` on.
template <class T, class D, class A>
HWY_INLINE void Products(D d, const Job& job, const T* w, const Panel& panel, const StagedBlocks& stage,
                         const A* staged, int64_t first, int64_t count, A* packed, A* tile) {
  const core::Problem& p = job.problem;
  const int64_t width = panel.vectors * static_cast<int64_t>(hn::Lanes(d)), cin = p.cin_per_group();
  const int64_t w_pitch = p.cout_per_group() * p.k;
  // Packing costs about as much as a block of products.
  const bool in_place = std::is_same_v<T, A> && count <= 2 && panel.rows == width;
  for (int64_t ci = 0; ci < cin; ci += job.config.depth) {
    const int64_t depth = std::min(job.config.depth, cin - ci);
    PanelOperands<A> operands{packed, width, panel.taps * width, nullptr, 0, 1, depth, panel.taps, nullptr,
                              width,  true};
    if constexpr (std::is_same_v<T, A>) {
      if (in_place) {
        operands.w = w + ci * w_pitch + panel.r;
        operands.w_tap = p.stride;
        operands.w_pitch = w_pitch;
      }
    }
    if (!in_place) Pack(d, job, w + ci * w_pitch, panel, depth, packed);
    A* out = tile;
    const int64_t ahead = std::min(job.config.depth, cin - ci - depth) * panel.taps;
    Ahead<T> next{w + (ci + depth) * w_pitch + panel.r, ahead, panel.taps, p.stride, w_pitch,
                  core::ceil_div(ahead, count)};
    for (int64_t b = first; b < first + count; ++b) {
      next.Fetch(panel.rows);
      const int64_t columns = BlockAt(job, stage.first + b).columns;
      operands.x_pitch = columns + job.taps - 1;
      operands.x = staged + b * job.block_elements() + job.taps - 1;
      operands.tile = out;
      PanelProduct(d, operands, columns, panel.vectors);
      out += columns * width;
    }
    staged += job.config.stage * job.block_elements();
  }
}

// Stores the panel's sums at one q. Returns false if zeros around x may have made a NaN.
template <class T, class D, class A>
HWY_INLINE bool StoreSums(D d, const Job& job, const Panel& panel, int64_t q, const A* sums, T* y) {
  const core::Problem& p = job.problem;
  const int64_t o = p.stride * q - p.padding + panel.r;
  const int64_t begin = std::clamp<int64_t>(-o, 0, panel.rows);
  const int64_t end = std::clamp<int64_t>(job.lout - o, begin, panel.rows);
  if (end == begin) return true;
  NarrowRow(d, sums + begin, end - begin, y + (o + begin));
  return (q >= panel.taps - 1 && q < p.l) || AllFinite(d, sums + begin, end - begin);
}

template <class T>
bool RunTask(const Job& job, const plan::Operands& in, const StagedBlocks& stage,
             const Accumulator<T>* staged, int64_t task, Accumulator<T>* scratch) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const int64_t panel_count = PanelCount(d, job), cout = p.cout_per_group();
  const Panel panel = PanelAt(d, job, task % panel_count);
  const int64_t width = panel.vectors * static_cast<int64_t>(hn::Lanes(d));
  const int64_t co = task / panel_count % cout, first = task / panel_count / cout * job.config.part;
  const int64_t channel = stage.group * cout + co, count = std::min(job.config.part, stage.count - first);
  A* tile = scratch;
  A* packed = tile + job.config.part * kPanelColumns * width;
  std::fill(tile, packed, start_of<T>(p.has_bias, in.bias, channel));
  const T* w = static_cast<const T*>(in.weight) + (stage.group * p.cin_per_group() * cout + co) * p.k;
  Products(d, job, w, panel, stage, staged, first, count, packed, tile);
  bool finite = true;
  for (int64_t b = first; b < first + count; ++b) {
    const Block block = BlockAt(job, stage.first + b);
    T* y = static_cast<T*>(in.output) + (block.n * p.cout + channel) * job.lout;
    for (int64_t q = block.q; q < block.q + block.columns; ++q, tile += width) {
      finite = StoreSums(d, job, panel, q, tile, y) && finite;
    }
  }
  return finite;
}

// Stages rows that lie inside x. Vectors overhang a row's end; the next row overwrites them.
template <class T, class D, class A>
HWY_INLINE void StageInside(D d, const T* row, int64_t pitch, int64_t count, int64_t rows, A* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t ci = 0; ci < rows; ++ci, row += pitch, out += count) {
    for (int64_t i = 0; i < count; i += lanes) hn::StoreU(LoadAs(d, row + i), d, out + i);
  }
}

template <class T>
void StageBlockOf(const Job& job, const T* x, const StagedBlocks& stage, int64_t index,
                  Accumulator<T>* staged) {
  const hn::ScalableTag<Accumulator<T>> d;
  const core::Problem& p = job.problem;
  const auto steps = p.x_steps();
  const Block block = BlockAt(job, stage.first + index);
  const int64_t count = block.columns + job.taps - 1, from = block.q - (job.taps - 1);
  const int64_t cin = p.cin_per_group(), overhang = static_cast<int64_t>(hn::Lanes(d)) - 1;
  const bool inside = steps[2] == 1 && from >= 0 && from + count + overhang <= p.l;
  const T* row = x + block.n * steps[0] + stage.group * cin * steps[1];
  Accumulator<T>* out = staged + index * job.block_elements();
  for (int64_t ci = 0; ci < cin; ci += job.config.depth, out += job.config.stage * job.block_elements()) {
    const int64_t rows = std::min(job.config.depth, cin - ci);
    if (inside) {
      StageInside(d, row + ci * steps[1] + from, steps[1], count, rows, out);
      continue;
    }
    for (int64_t c = 0; c < rows; ++c) {
      StageRow(d, row + (ci + c) * steps[1], steps[2], p.l, from, count, out + c * count);
    }
  }
}

void StageAny(const Job& job, const void* x, const StagedBlocks& stage, int64_t block, void* staged) {
  with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    using T = decltype(storage);
    StageBlockOf<T>(job, static_cast<const T*>(x), stage, block, static_cast<Accumulator<T>*>(staged));
  });
}

bool Run(const Job& job, const plan::Operands& in, const StagedBlocks& stage, const void* staged,
         int64_t task, void* scratch) {
  return with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    using T = decltype(storage);
    using A = Accumulator<T>;
    return RunTask<T>(job, in, stage, static_cast<const A*>(staged), task, static_cast<A*>(scratch));
  });
}

int64_t Panels(const Job& job) {
  return job.problem.dtype == core::DType::f64 ? PanelCount(hn::ScalableTag<double>(), job)
                                               : PanelCount(hn::ScalableTag<float>(), job);
}

}  // namespace tconv::cpu::longk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::longk {

HWY_EXPORT(StageAny);
HWY_EXPORT(Run);
HWY_EXPORT(Panels);

int64_t panels(const Job& job) {
  return TCONV_DISPATCH(Panels)(job);
}

void stage_block(const Job& job, const void* x, const StagedBlocks& stage, int64_t block, void* staged) {
  TCONV_DISPATCH(StageAny)(job, x, stage, block, staged);
}

bool run_task(const Job& job, const plan::Operands& operands, const StagedBlocks& stage, const void* staged,
              int64_t task, void* scratch) {
  return TCONV_DISPATCH(Run)(job, operands, stage, staged, task, scratch);
}

}  // namespace tconv::cpu::longk
#endif
