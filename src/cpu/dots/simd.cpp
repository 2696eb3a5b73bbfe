#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/dots/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dots/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/dots/columns-inl.hpp"
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
