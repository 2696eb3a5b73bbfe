#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/polyphase.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/dots/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dots/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/simd/lanes-inl.hpp"
#include "cpu/simd/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dots {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kMostTileRows = 4;

// Rows of a tile whose sums stay in registers.
constexpr int64_t tile_rows(int64_t columns) {
  return TCONV_32_REGISTERS || columns <= 3 ? kMostTileRows : 2;
}

// Whether a masked load may read the end of a row: on other targets it may read beyond the mask.
template <class T>
constexpr bool kMaskedRests = !HWY_MEM_OPS_MIGHT_FAULT && std::is_same_v<T, Accumulator<T>>;

// The same of masked loads of taps. Those of AVX2, which it has for float32 and float64 alone, read nothing
// beyond the mask.
template <class T>
constexpr bool kMaskedTaps = HWY_TARGET == HWY_AVX2 ? std::is_same_v<T, Accumulator<T>>
                                                    : !HWY_MEM_OPS_MIGHT_FAULT && HWY_TARGET != HWY_SCALAR;

// Lanes [begin, end) of a vector that lies at `from`; the others are zero.
template <class D>
HWY_INLINE hn::Vec<D> LoadLanes(D d, const hn::TFromD<D>* from, int64_t begin, int64_t end) {
  const auto mask = hn::AndNot(hn::FirstN(d, static_cast<std::size_t>(begin)),
                               hn::FirstN(d, static_cast<std::size_t>(end)));
  return hn::MaskedLoad(mask, d, from);
}

// The same, widened to accumulators.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadLanesAs(D d, const T* from, int64_t begin, int64_t end) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return LoadLanes(d, from, begin, end);
  } else {
    const hn::Rebind<uint16_t, D> d16;
    alignas(64) uint16_t lanes[hn::MaxLanes(d16)];
    hn::Store(LoadLanes(d16, reinterpret_cast<const uint16_t*>(from), begin, end), d16, lanes);
    return simd::HWY_NAMESPACE::LoadAs(d, reinterpret_cast<const T*>(lanes));
  }
}

// Some rows of weights and some columns of X.
template <class T, class A>
struct Tile {
  const T* w;
  int64_t w_pitch;
  const A* tails;  // [row][kPad]: the end of each row, beyond whole vectors, then zeros; unless masked
  const A* x;
  int64_t x_pitch;
  int64_t whole, rest;  // depth in whole vectors, and beyond
  A* sums;              // [row][columns]
  int64_t sums_pitch;
};

// sums[row][column] += the products along the depth.
template <int kTileRowsUsed, int kColumnsUsed, class T, class A>
HWY_NOINLINE void AddDots(const Tile<T, A>& t) {
  const hn::ScalableTag<A> d;
  using V = hn::Vec<hn::ScalableTag<A>>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[kTileRowsUsed][kColumnsUsed];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRowsUsed; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumnsUsed; ++c) sums[r][c] = hn::Zero(d);
  }
  const auto step = [&](const auto& load, const A* x) HWY_ATTR {
    V in[kColumnsUsed];
#pragma GCC unroll 8
    for (int c = 0; c < kColumnsUsed; ++c) in[c] = hn::LoadU(d, x + c * t.x_pitch);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRowsUsed; ++r) {
      const V row = load(r);
#pragma GCC unroll 8
      for (int c = 0; c < kColumnsUsed; ++c) sums[r][c] = hn::MulAdd(row, in[c], sums[r][c]);
    }
  };
  for (int64_t i = 0; i < t.whole; i += lanes) {
    const T* w = t.w + i;
    step([&](int r) HWY_ATTR { return simd::HWY_NAMESPACE::LoadAs(d, w + r * t.w_pitch); }, t.x + i);
  }
  if constexpr (kMaskedRests<T>) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(t.rest));
    const T* w = t.w + t.whole;
    if (t.rest > 0) {
      step([&](int r) HWY_ATTR { return hn::MaskedLoad(mask, d, w + r * t.w_pitch); }, t.x + t.whole);
    }
  } else if (t.rest > 0) {
    step([&](int r) HWY_ATTR { return hn::LoadU(d, t.tails + r * kPad); }, t.x + t.whole);
  }
  constexpr int kSums = kTileRowsUsed * kColumnsUsed, kLanes = static_cast<int>(hn::MaxLanes(d));
  simd::HWY_NAMESPACE::AddLanes<kSums>(d, &sums[0][0]);
  A out[(kSums + kLanes - 1) / kLanes * kLanes];
#pragma GCC unroll 8
  for (int i = 0; i < kSums; i += kLanes) hn::StoreU((&sums[0][0])[i / kLanes], d, out + i);
#pragma GCC unroll 8
  for (int r = 0; r < kTileRowsUsed; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumnsUsed; ++c) t.sums[r * t.sums_pitch + c] += out[r * kColumnsUsed + c];
  }
}

template <int kTileRowsUsed, class T, class A>
HWY_INLINE void AddColumns(const Tile<T, A>& t, int64_t columns) {
  if (columns == 1) return AddDots<kTileRowsUsed, 1>(t);
  if (columns == 2) return AddDots<kTileRowsUsed, 2>(t);
  if (columns == 3) return AddDots<kTileRowsUsed, 3>(t);
  if constexpr (kTileRowsUsed <= tile_rows(kTileColumns)) {  // else tile_rows() allows 3 columns at most
    if (columns == 4) return AddDots<kTileRowsUsed, 4>(t);
    if (columns == 5) return AddDots<kTileRowsUsed, 5>(t);
    AddDots<kTileRowsUsed, 6>(t);
  }
}

struct Depth {
  int64_t co_begin, co_end;
};

// What a column takes of each channel: of `count` taps, `step` apart in dy, those of [begin, end) meet it.
struct Taps {
  int64_t count, begin, end;
  int64_t step, channel_step;
};

// X of one column where taps lie side by side and fit a vector: one a channel, which may reach into the next
// channel's place before that is stored. room: elements of `to`. Taps one by one would take half of the time
// of batches (Xeon, n128 ci16 co128 l4 k4 s2: 0.44 ms, so 0.17).
template <class T, class A>
HWY_INLINE void LoadTaps(const T* from, const Taps& taps, int64_t channels, int64_t room, A* to) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = std::min(channels, room < lanes ? 0 : (room - lanes) / taps.count + 1);
  for (int64_t co = 0; co < whole; ++co, from += taps.channel_step, to += taps.count) {
    hn::StoreU(LoadLanesAs(d, from, taps.begin, taps.end), d, to);
  }
  for (int64_t co = whole; co < channels; ++co, from += taps.channel_step, to += taps.count) {
    for (int64_t k = 0; k < taps.count; ++k) {
      to[k] = k >= taps.begin && k < taps.end ? widen(from[k]) : A(0);
    }
  }
}

// X of one column and some channels. from: tap 0 of the first one, which may not exist; room: elements of
// `to`.
template <class T, class A>
HWY_INLINE void LoadColumn(const T* from, const Taps& taps, int64_t channels, int64_t room, A* to) {
  const hn::ScalableTag<A> d;
  const int64_t meet = taps.end - taps.begin;
  if (taps.count == 1 && meet == 1) {  // the loops below take 1.5 times as long
    for (int64_t c = 0; c < channels; ++c) to[c] = widen(from[c * taps.channel_step]);
    return;
  }
  if constexpr (kMaskedTaps<T>) {
    if (taps.step == 1 && taps.count <= static_cast<int64_t>(hn::Lanes(d))) {
      return LoadTaps(from, taps, channels, room, to);
    }
  }
  for (int64_t co = 0; co < channels; ++co, from += taps.channel_step, to += taps.count) {
    if (meet < taps.count) std::fill(to, to + taps.count, A(0));
    if (taps.count < kPad || taps.step != 1) {
      for (int64_t k = taps.begin; k < taps.end; ++k) to[k] = widen(from[k * taps.step]);
    } else {
      simd::HWY_NAMESPACE::WidenRow(d, from + taps.begin, 1, meet, to + taps.begin);
    }
  }
}

// X of a task's columns and a depth block. dy: of the group, in sample 0.
template <class T, class A>
HWY_INLINE void LoadColumns(const Job& job, const Task& task, const Depth& depth, const T* dy, A* x) {
  const core::Problem& p = job.problem;
  const auto steps = p.y_steps();
  const int64_t channels = depth.co_end - depth.co_begin, room = job.x_pitch();
  for (int64_t n = task.sample_begin; n < task.sample_end; ++n) {
    for (int64_t i = 0; i < p.l; ++i, x += room) {
      const int64_t first = p.stride * i - p.padding;
      const int64_t low = first >= 0 ? 0 : core::ceil_div(-first, p.dilation);
      const int64_t begin = std::min(p.k, low);
      const int64_t end =
          first >= job.lout ? begin : std::clamp((job.lout - 1 - first) / p.dilation + 1, begin, p.k);
      const T* from = dy + n * steps[0] + depth.co_begin * steps[1] + first * steps[2];
      LoadColumn(from, {p.k, begin, end, p.dilation * steps[2], steps[1]}, channels, room, x);
      std::fill(x + channels * p.k, x + room, A(0));
    }
  }
}

// C of some rows += the depth block's products. weight: of the group.
template <class T, class A>
HWY_INLINE void AddRows(const Job& job, const Task& task, const Depth& depth, const T* weight, const A* x,
                        int64_t row, int64_t rows, A* sums) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t pitch = job.cout * job.problem.k, size = (depth.co_end - depth.co_begin) * job.problem.k;
  const int64_t whole = size / lanes * lanes, columns = (task.sample_end - task.sample_begin) * job.problem.l;
  const int64_t blocks = core::ceil_div(columns, kTileColumns);
  const T* w = weight + row * pitch + depth.co_begin * job.problem.k;
  A tails[kMostTileRows * kPad];
  if (whole < size && !kMaskedRests<T>) {
    std::fill(tails, tails + rows * kPad, A(0));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = whole; i < size; ++i) tails[r * kPad + i - whole] = widen(w[r * pitch + i]);
    }
  }
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = columns * block / blocks, end = columns * (block + 1) / blocks;
    const Tile<T, A> t{w,
                       pitch,
                       tails,
                       x + begin * job.x_pitch(),
                       job.x_pitch(),
                       whole,
                       size - whole,
                       sums + (row - task.row_begin) * columns + begin,
                       columns};
    if (rows == 4) {
      AddColumns<4>(t, end - begin);
    } else if (rows == 2) {
      AddColumns<2>(t, end - begin);
    } else {
      AddColumns<1>(t, end - begin);
    }
  }
}

// C += the products of some depth blocks, whose X are there. Each row of weights is read from end to end.
template <class T, class A>
HWY_INLINE void AddBlocks(const Job& job, const Task& task, int64_t co_begin, int64_t co_end, const T* weight,
                          const A* x, A* sums) {
  const int64_t columns = (task.sample_end - task.sample_begin) * job.problem.l;
  const int64_t widest =
      core::ceil_div(columns, core::ceil_div(columns, kTileColumns));  // of AddRows' blocks
  const int64_t most = tile_rows(widest);
  for (int64_t row = task.row_begin, rows = most; row < task.row_end; row += rows) {
    while (rows > task.row_end - row) rows /= 2;
    const A* block = x;
    for (int64_t co = co_begin; co < co_end; co += job.config.co_block) {
      const Depth depth{co, std::min(co_end, co + job.config.co_block)};
      AddRows(job, task, depth, weight, block, row, rows, sums);
      block += job.columns() * job.x_pitch();
    }
  }
}

// Sums the products of one element that exist.
template <class T, class A = Accumulator<T>>
HWY_NOINLINE A Exact(const Job& job, const plan::Operands& in, int64_t n, int64_t channel, int64_t i) {
  const core::Problem& p = job.problem;
  const auto steps = p.y_steps();
  const T* w = static_cast<const T*>(in.weight) + channel * job.cout * p.k;
  const T* dy =
      static_cast<const T*>(in.grad_output) + n * steps[0] + channel / job.cin * job.cout * steps[1];
  A sum = start_of<T>(p.has_bias, in.bias, channel);
  for (int64_t co = 0; co < job.cout; ++co) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t o = p.stride * i - p.padding + k * p.dilation;
      if (o < 0 || o >= job.lout) continue;
      sum = std::fma(static_cast<A>(widen(w[co * p.k + k])),
                     static_cast<A>(widen(dy[co * steps[1] + o * steps[2]])), sum);
    }
  }
  return sum;
}

// Whether every tap of position i meets dy.
HWY_INLINE bool AllMeet(const Job& job, int64_t i) {
  const core::Problem& p = job.problem;
  const int64_t first = p.stride * i - p.padding;
  return first >= 0 && first + (p.k - 1) * p.dilation < job.lout;
}

// Stores some rows of one sample at a time: with few positions, rows share cache lines of dx, which samples
// never do.
template <class T, class A>
HWY_INLINE void Store(const Job& job, const Task& task, const plan::Operands& in, const A* sums) {
  constexpr int64_t kTogether = 16;
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const int64_t columns = (task.sample_end - task.sample_begin) * p.l;
  for (int64_t first = task.row_begin; first < task.row_end; first += kTogether) {
    const int64_t last = std::min(first + kTogether, task.row_end);
    for (int64_t n = task.sample_begin; n < task.sample_end; ++n) {
      for (int64_t row = first; row < last; ++row) {
        const A* from = sums + (row - task.row_begin) * columns + (n - task.sample_begin) * p.l;
        const int64_t channel = task.group * job.cin + row;
        T* to = static_cast<T*>(in.output) + (n * p.cin + channel) * p.l;
        simd::HWY_NAMESPACE::NarrowRow(d, from, p.l, to);
        for (int64_t i = 0; i < p.l; ++i) {
          if (from[i] != from[i] && !AllMeet(job, i)) to[i] = round_to<T>(Exact<T>(job, in, n, channel, i));
        }
      }
    }
  }
}

template <class T>
void Compute(const Job& job, const Task& task, const plan::Operands& in, void* scratch) {
  using A = Accumulator<T>;
  const core::Problem& p = job.problem;
  const int64_t columns = (task.sample_end - task.sample_begin) * p.l;
  A* x = static_cast<A*>(scratch);
  const int64_t block = job.columns() * job.x_pitch();
  A* sums = x + job.config.staged * block;
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const A start = start_of<T>(p.has_bias, in.bias, task.group * job.cin + row);
    std::fill_n(sums + (row - task.row_begin) * columns, columns, start);
  }
  const T* weight = static_cast<const T*>(in.weight) + task.group * job.cin * job.cout * p.k;
  const T* dy = static_cast<const T*>(in.grad_output) + task.group * job.cout * p.y_steps()[1];
  const int64_t at_once = job.config.staged * job.config.co_block;
  for (int64_t first = 0; first < job.cout; first += at_once) {
    const int64_t last = std::min(job.cout, first + at_once);
    A* to = x;
    for (int64_t co = first; co < last; co += job.config.co_block, to += block) {
      LoadColumns(job, task, Depth{co, std::min(last, co + job.config.co_block)}, dy, to);
    }
    AddBlocks(job, task, first, last, weight, x, sums);
  }
  Store<T>(job, task, in, sums);
}

void Run(const Job& job, const Task& task, const plan::Operands& in, void* scratch) {
  with_storage(job.problem.dtype,
               [&](auto storage) HWY_ATTR { Compute<decltype(storage)>(job, task, in, scratch); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dots
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::dots {

HWY_EXPORT(Run);

void compute(const Job& job, const Task& task, const plan::Operands& operands, void* scratch) {
  TCONV_DISPATCH(Run)(job, task, operands, scratch);
}

}  // namespace tconv::cpu::dots
#endif
