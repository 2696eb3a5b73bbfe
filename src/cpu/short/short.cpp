#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/short/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/short/short.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/simd/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::short_l::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

// A chunk's columns, split evenly into blocks.
struct Columns {
  int64_t count, blocks;
  int64_t begin(int64_t block) const { return count * block / blocks; }
};

HWY_INLINE Columns ColumnsOf(const Job& job, int64_t chunk) {
  const core::Problem& p = job.problem;
  const int64_t samples = std::min(job.config.samples, p.n - chunk * job.config.samples);
  return {samples * p.l, core::ceil_div(samples * p.l, kPanelColumns)};
}

template <class T>
void Stage(const Job& job, const T* x, int64_t chunk, int64_t block, Accumulator<T>* staged) {
  const core::Problem& p = job.problem;
  const auto steps = p.x_steps();
  const Columns columns = ColumnsOf(job, chunk);
  if (block >= columns.blocks) return;
  const int64_t begin = columns.begin(block), width = columns.begin(block + 1) - begin;
  Accumulator<T>* out = staged + begin * p.cin;
  for (int64_t c = 0; c < width; ++c) {
    const int64_t n = chunk * job.config.samples + (begin + c) / p.l, i = (begin + c) % p.l;
    const T* column = x + n * steps[0] + i * steps[2];
    for (int64_t ci = 0; ci < p.cin; ++ci) out[ci * width + c] = widen(column[ci * steps[1]]);
  }
}

// tile[column][row] for the rows [row0, row0 + rows) of a group.
template <class T, class D, class A>
HWY_INLINE void Products(D d, const Job& job, const T* w, int64_t row0, int64_t rows, int64_t ci0,
                         const Columns& columns, const A* staged, A* panel, A* tile) {
  const core::Problem& p = job.problem;
  const int64_t w_pitch = p.cout_per_group() * p.k, width = PanelRows(d), cin = p.cin_per_group();
  for (int64_t from = 0; from < cin; from += job.config.depth) {
    const int64_t depth = std::min(job.config.depth, cin - from);
    for (int64_t r = 0; r < rows; r += width) {
      const T* rows_w = w + from * w_pitch + row0 + r;
      PanelOperands<A> operands{panel, width, nullptr, 0, 0, depth, 1, tile + r, job.row_pitch, from > 0};
      bool in_place = false;
      if constexpr (std::is_same_v<T, A>) {
        // The last panel may reach beyond the weights.
        in_place = !job.config.pack_panels && row0 + r + width <= w_pitch;
        if (in_place) {
          operands.w = rows_w;
          operands.w_pitch = w_pitch;
        }
      }
      if (!in_place) {
        for (int64_t ci = 0; ci < depth; ++ci) {
          PackPanelRow(d, rows_w + ci * w_pitch, std::min(width, w_pitch - row0 - r), panel + ci * width);
        }
      }
      for (int64_t b = 0; b < columns.blocks; ++b) {
        const int64_t begin = columns.begin(b), count = columns.begin(b + 1) - begin;
        PanelOperands<A> block = operands;
        block.x = staged + begin * p.cin + (ci0 + from) * count;
        block.x_pitch = count;
        block.tile += begin * job.row_pitch;
        PanelProduct(d, block, count);
      }
    }
  }
}

// One channel of one sample: its columns' taps put where they belong.
template <class T, class D, class A>
HWY_INLINE void Scatter(D d, const Job& job, const A* tile, A bias, A* HWY_RESTRICT line, T* y) {
  const core::Problem& p = job.problem;
  std::fill(line, line + job.full + p.output_padding, bias);
  for (int64_t i = 0; i < p.l; ++i, tile += job.row_pitch) {
    A* HWY_RESTRICT at = line + i * p.stride;
    if (p.dilation == 1) {
      for (int64_t k = 0; k < p.k; ++k) at[k] += tile[k];
    } else {
      for (int64_t k = 0; k < p.k; ++k) at[k * p.dilation] += tile[k];
    }
  }
  NarrowRow(d, line + p.padding, job.lout, y);
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
  A* panel = tile + job.columns() * job.row_pitch;
  A* line = panel + job.config.depth * PanelRows(d);
  const T* w = static_cast<const T*>(in.weight) + group * cin * cout * p.k;
  Products<T>(d, job, w, first * p.k, channels * p.k, group * cin, columns, staged, panel, tile);
  for (int64_t m = 0; m < columns.count / p.l; ++m) {
    const int64_t n = chunk * job.config.samples + m;
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t co = group * cout + first + c;
      const A bias = p.has_bias ? widen(static_cast<const T*>(in.bias)[co]) : A{0};
      T* y = static_cast<T*>(in.output) + (n * p.cout + co) * job.lout;
      Scatter(d, job, tile + m * p.l * job.row_pitch + c * p.k, bias, line, y);
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
  return HWY_DYNAMIC_DISPATCH(Blocks)(job);
}

void stage_columns(const Job& job, const void* x, int64_t chunk, int64_t block, void* staged) {
  HWY_DYNAMIC_DISPATCH(StageAny)(job, x, chunk, block, staged);
}

void run_task(const Job& job, const plan::Operands& operands, int64_t chunk, const void* staged, int64_t task,
              void* scratch) {
  HWY_DYNAMIC_DISPATCH(Run)(job, operands, chunk, staged, task, scratch);
}

}  // namespace tconv::cpu::short_l
#endif
