#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/longk/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/longk/longk.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/simd/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::longk::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

// Residues [r, r + rows) with the same number of taps.
struct Panel {
  int64_t r, rows, taps;
};

// The first K mod stride residues have one tap more than the others.
HWY_INLINE Panel PanelAt(const Job& job, int64_t width, int64_t index) {
  const core::Problem& p = job.problem;
  const int64_t longer = p.k % p.stride, taps = p.k / p.stride, first = core::ceil_div(longer, width);
  if (index < first) return {index * width, std::min(width, longer - index * width), taps + 1};
  const int64_t r = longer + (index - first) * width;
  return {r, std::min(width, p.stride - r), taps};
}

template <class D>
HWY_INLINE int64_t PanelCount(D d, const Job& job) {
  const int64_t width = PanelRows(d), longer = job.problem.k % job.problem.stride;
  return core::ceil_div(longer, width) + core::ceil_div(job.problem.stride - longer, width);
}

template <class T, class D, class A>
HWY_INLINE void Pack(D d, const Job& job, const T* w, const Panel& panel, int64_t depth, A* out) {
  const core::Problem& p = job.problem;
  for (int64_t ci = 0; ci < depth; ++ci, w += p.cout_per_group() * p.k) {
    for (int64_t j = 0; j < panel.taps; ++j, out += PanelRows(d)) {
      PackPanelRow(d, w + panel.r + j * p.stride, panel.rows, out);
    }
  }
}

// tile[q][r] for the part [from, from + count) of the stage.
template <class T, class D, class A>
HWY_INLINE bool Products(D d, const Job& job, const T* w, const Panel& panel, const A* staged, int64_t from,
                         int64_t count, A* packed, A* tile) {
  const core::Problem& p = job.problem;
  const int64_t width = PanelRows(d), cin = p.cin_per_group();
  const int64_t blocks = core::ceil_div(count, kPanelColumns);
  bool finite = true;
  for (int64_t ci = 0; ci < cin; ci += job.config.depth) {
    const int64_t depth = std::min(job.config.depth, cin - ci);
    Pack(d, job, w + ci * p.cout_per_group() * p.k, panel, depth, packed);
    finite = AllFinite(d, packed, depth * panel.taps * width) && finite;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = count * b / blocks, columns = count * (b + 1) / blocks - begin;
      // Staged rows begin taps - 1 positions before the stage's first q.
      const A* x = staged + ci * job.pitch + job.taps - 1 + from + begin;
      PanelProduct(d,
                   PanelOperands<A>{packed, width, x, job.pitch, 1, depth, panel.taps, tile + begin * width,
                                    width, true},
                   columns);
    }
  }
  return finite;
}

template <class T>
bool RunTask(const Job& job, const plan::Operands& in, const Stage& stage, const Accumulator<T>* staged,
             int64_t task, Accumulator<T>* scratch) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const int64_t width = PanelRows(d), count = PanelCount(d, job), cout = p.cout_per_group();
  const Panel panel = PanelAt(job, width, task % count);
  const int64_t co = task / count % cout, from = task / count / cout * job.config.part;
  const int64_t channel = stage.group * cout + co, q_count = std::min(job.config.part, stage.count - from);
  const A bias = start_of<T>(p.has_bias, in.bias, channel);
  A* tile = scratch;
  A* packed = tile + job.config.part * width;
  std::fill(tile, tile + q_count * width, bias);
  const T* w = static_cast<const T*>(in.weight) + (stage.group * p.cin_per_group() * cout + co) * p.k;
  const bool finite = Products(d, job, w, panel, staged, from, q_count, packed, tile);
  T* y = static_cast<T*>(in.output) + (stage.n * p.cout + channel) * job.lout;
  for (int64_t q = 0; q < q_count; ++q) {
    const int64_t o = p.stride * (stage.q0 + from + q) - p.padding + panel.r;
    const int64_t begin = std::clamp<int64_t>(-o, 0, panel.rows);
    const int64_t end = std::clamp<int64_t>(job.lout - o, begin, panel.rows);
    if (end > begin) NarrowRow(d, tile + q * width + begin, end - begin, y + (o + begin));
  }
  return finite;
}

template <class T>
void StageRowOf(const Job& job, const T* x, const Stage& stage, int64_t ci, Accumulator<T>* staged) {
  const core::Problem& p = job.problem;
  const auto steps = p.x_steps();
  const T* row = x + stage.n * steps[0] + (stage.group * p.cin_per_group() + ci) * steps[1];
  StageRow(hn::ScalableTag<Accumulator<T>>(), row, steps[2], p.l, stage.q0 - (job.taps - 1),
           stage.count + job.taps - 1, staged + ci * job.pitch);
}

void StageAny(const Job& job, const void* x, const Stage& stage, int64_t ci, void* staged) {
  with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    using T = decltype(storage);
    StageRowOf<T>(job, static_cast<const T*>(x), stage, ci, static_cast<Accumulator<T>*>(staged));
  });
}

bool Run(const Job& job, const plan::Operands& in, const Stage& stage, const void* staged, int64_t task,
         void* scratch) {
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

void stage_row(const Job& job, const void* x, const Stage& stage, int64_t ci, void* staged) {
  TCONV_DISPATCH(StageAny)(job, x, stage, ci, staged);
}

bool run_task(const Job& job, const plan::Operands& operands, const Stage& stage, const void* staged,
              int64_t task, void* scratch) {
  return TCONV_DISPATCH(Run)(job, operands, stage, staged, task, scratch);
}

}  // namespace tconv::cpu::longk
#endif
