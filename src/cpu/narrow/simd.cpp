#include <algorithm>
#include <utility>

#include "core/polyphase.hpp"
#include "cpu/narrow/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/narrow/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/simd/tiles-inl.hpp"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::narrow::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of positions beside R rows: as many accumulators as the registers hold with R*V + V + 1 in use.
constexpr int VectorsFor(int rows) {
#if TCONV_32_REGISTERS
  constexpr int kVectors[] = {8, 8, 6, 6, 4, 4, 3, 3};
#else
  constexpr int kVectors[] = {4, 4, 3, 2, 2, 2, 1, 1};
#endif
  return kVectors[rows - 1];
}

template <class T>
struct Tile {
  const T* x;  // the group's first channel at position 0
  int64_t q0, count;
  bool in_place;
  Accumulator<T>* staged;
};

// What a block reads, and where its sums go.
template <class A>
struct BlockOperands {
  const A* x;  // of the first channel and output
  int64_t pitch, depth, taps, x_step;
  const A* w;
  A* const* rows;
};

template <int R, int V, class D, class A>
HWY_INLINE void Product(D d, const BlockOperands<A>& in, int64_t at, const A* bias, const A* ahead) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      acc[r][v] = bias != nullptr ? hn::Set(d, bias[r]) : hn::LoadU(d, in.rows[r] + at + v * lanes);
    }
  }
  const A* x = in.x + at;
  const A* w = in.w;
  for (int64_t ci = in.depth; ci > 0; --ci, x += in.pitch) {
    if (ahead != nullptr) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) hwy::Prefetch(ahead + v * lanes);
      ahead += in.pitch;
    }
    const A* xj = x;
    for (int64_t j = in.taps; j > 0; --j, xj -= in.x_step, w += R) {
      hn::Vec<D> xv[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) xv[v] = hn::LoadU(d, xj + v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const auto weight = hn::Set(d, w[r]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(weight, xv[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) hn::StoreU(acc[r][v], d, in.rows[r] + at + v * lanes);
  }
}

// One block over [0, count) of a part. ahead: what the caller reads next after these channels' part, or null.
template <int R, class D, class A>
HWY_NOINLINE void RunBlock(D d, const BlockOperands<A>& in, int64_t count, const A* bias, const A* ahead) {
  constexpr int kV = VectorsFor(R);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool prefetch = ahead != nullptr;
  int64_t q = 0;
  for (; q + kV * lanes <= count; q += kV * lanes) {
    const A* next = q + 2 * kV * lanes <= count ? in.x + q + kV * lanes : ahead;
    Product<R, kV>(d, in, q, bias, prefetch ? next : nullptr);
  }
  for (; q < count; q += lanes) Product<R, 1>(d, in, q, bias, static_cast<const A*>(nullptr));
}

template <class D, class A>
HWY_INLINE void AnyBlock(D d, const BlockOperands<A>& in, std::size_t rows, int64_t count, const A* bias,
                         const A* ahead) {
  switch (rows) {
    case 1:
      return RunBlock<1>(d, in, count, bias, ahead);
    case 2:
      return RunBlock<2>(d, in, count, bias, ahead);
    case 3:
      return RunBlock<3>(d, in, count, bias, ahead);
    case 4:
      return RunBlock<4>(d, in, count, bias, ahead);
    case 5:
      return RunBlock<5>(d, in, count, bias, ahead);
    case 6:
      return RunBlock<6>(d, in, count, bias, ahead);
    case 7:
      return RunBlock<7>(d, in, count, bias, ahead);
    default:
      return RunBlock<8>(d, in, count, bias, ahead);
  }
}

// Channels [ci, ci + channels) of x with everything that `count` outputs from `from` read, vectors' overhang
// included: where they are, or copied.
template <class T, class D, class A>
HWY_INLINE std::pair<const A*, int64_t> PrepareX(D d, const Job& job, const Tile<T>& tile, int64_t from,
                                                 int64_t count, int64_t ci, int64_t channels, A* staged) {
  const auto steps = job.problem.x_steps();
  const int64_t first = tile.q0 + from + job.lowest;
  if constexpr (std::is_same_v<T, A>) {
    if (tile.in_place) return {tile.x + ci * steps[1] + first, steps[1]};
  }
  const int64_t positions = count + static_cast<int64_t>(hn::Lanes(d)) + job.highest - job.lowest;
  for (int64_t c = 0; c < channels; ++c) {
    StageRow(d, tile.x + (ci + c) * steps[1], steps[2], job.problem.l, first, positions,
             staged + c * job.pitch);
  }
  return {staged, job.pitch};
}

// All rows over [from, from + count) of the tile, channels by depth: so many rows of x stay in reach of L1
// and of the first-level TLB.
template <class T, class D, class A>
HWY_INLINE void Part(D d, const Job& job, const Tile<T>& tile, int64_t from, int64_t count, const A* w,
                     const A* bias, A* rows) {
  const int64_t cin = job.problem.cin_per_group(), depth = job.config.depth;
  for (int64_t ci = 0; ci < cin; ci += depth) {
    const int64_t channels = std::min(depth, cin - ci);
    const auto [x0, pitch] = PrepareX(d, job, tile, from, count, ci, channels, tile.staged);
    for (std::size_t b = 0; b < job.blocks.size(); ++b) {
      const Block& block = job.blocks[b];
      A* out[kBlockRows];
      A row_bias[kBlockRows];
      for (std::size_t r = 0; r < block.rows.size(); ++r) {
        out[r] = rows + block.rows[r] * (job.config.part + kRowSlack);
        row_bias[r] = bias[block.rows[r] / job.problem.stride];
      }
      const A* x = x0 - job.lowest + block.offset;
      const int64_t weights = ci * block.taps * static_cast<int64_t>(block.rows.size());
      const BlockOperands<A> in{x, pitch, channels, block.taps, job.x_step, w + block.weights + weights, out};
      const A* ahead = ci + depth < cin ? x + depth * pitch : x - ci * pitch + count;
      AnyBlock(d, in, block.rows.size(), count, ci == 0 ? row_bias : nullptr,
               b == 0 && tile.in_place ? ahead : nullptr);
    }
  }
}

template <class T, class D>
Tile<T> TileAt(D d, const Job& job, const T* x, int64_t q0, Accumulator<T>* staged) {
  const core::Problem& p = job.problem;
  const int64_t count = std::min(job.config.tile, job.q_end - q0);
  const int64_t reach = q0 + count + static_cast<int64_t>(hn::Lanes(d)) + job.highest;
  const bool inside = q0 + job.lowest >= 0 && reach <= p.l && p.x_steps()[2] == 1;
  return {x, q0, count, job.config.in_place && inside && std::is_same_v<T, Accumulator<T>>, staged};
}

template <class T>
void RunTask(const Job& job, const plan::Operands& in, const void* reordered, int64_t task, void* scratch) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const auto steps = p.x_steps();
  const int64_t cin = p.cin_per_group(), cout = p.cout_per_group(), s = p.stride;
  const int64_t part = job.config.part, row_pitch = part + kRowSlack;
  A* staged = static_cast<A*>(scratch);
  A* rows = staged + std::min(cin, job.config.depth) * job.pitch;
  A* bias = rows + job.row_count() * row_pitch;
  const int64_t begin = task * job.config.units_per_task;
  const int64_t end = std::min(job.units(), begin + job.config.units_per_task);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t n = u / (p.groups * job.tiles), group = u / job.tiles % p.groups;
    const A* w = static_cast<const A*>(reordered) + group * cin * cout * p.k;
    const T* x = static_cast<const T*>(in.x) + n * steps[0] + group * cin * steps[1];
    const Tile<T> tile = TileAt(d, job, x, job.q_begin + u % job.tiles * job.config.tile, staged);
    for (int64_t co = 0; co < cout; ++co) {
      bias[co] = start_of<T>(p.has_bias, in.bias, group * cout + co);
    }
    for (int64_t q = 0; q < tile.count; q += part) {
      const int64_t to = std::min(q + part, tile.count);
      Part(d, job, tile, q, to - q, w, bias, rows);
      const int64_t o = s * (tile.q0 + q) - p.padding;
      const int64_t clip = std::max<int64_t>(0, -o), elements = std::min(job.lout - o, s * (to - q));
      for (int64_t co = 0; co < cout; ++co) {
        T* y = static_cast<T*>(in.output) + (n * p.cout + group * cout + co) * job.lout;
        InterleaveRows(d, rows + co * s * row_pitch, row_pitch, s, clip, elements, y, o);
      }
    }
  }
}

template <class T>
bool Reorder(const Job& job, const void* weight, void* reordered) {
  using A = Accumulator<T>;
  const core::Problem& p = job.problem;
  const int64_t cin = p.cin_per_group(), cout = p.cout_per_group();
  const T* raw = static_cast<const T*>(weight);
  A* out = static_cast<A*>(reordered);
  for (int64_t group = 0; group < p.groups; ++group) {
    for (const Block& block : job.blocks) {
      for (int64_t ci = group * cin; ci < (group + 1) * cin; ++ci) {
        for (int64_t j = 0; j < block.taps; ++j) {
          for (const int64_t row : block.rows) {
            const int64_t k0 = job.first_tap[static_cast<std::size_t>(row % p.stride)];
            *out++ = widen(raw[(ci * cout + row / p.stride) * p.k + k0 + j * job.k_step]);
          }
        }
      }
    }
  }
  return AllFinite(hn::ScalableTag<A>(), static_cast<const A*>(reordered), p.weight_elements());
}

void Run(const Job& job, const plan::Operands& in, const void* reordered, int64_t task, void* scratch) {
  with_storage(job.problem.dtype,
               [&](auto storage) HWY_ATTR { RunTask<decltype(storage)>(job, in, reordered, task, scratch); });
}

bool ReorderAny(const Job& job, const void* weight, void* reordered) {
  return with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    return Reorder<decltype(storage)>(job, weight, reordered);
  });
}

}  // namespace tconv::cpu::narrow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::narrow {

HWY_EXPORT(Run);
HWY_EXPORT(ReorderAny);

bool reorder_weights(const Job& job, const void* weight, void* reordered) {
  return TCONV_DISPATCH(ReorderAny)(job, weight, reordered);
}

void run_task(const Job& job, const plan::Operands& operands, const void* reordered, int64_t task,
              void* scratch) {
  TCONV_DISPATCH(Run)(job, operands, reordered, task, scratch);
}

}  // namespace tconv::cpu::narrow
#endif
