#include "cpu/dense/pack.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "core/polyphase.hpp"
#include "cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dense/pack.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/dense/runs-inl.hpp"

// What one task packs: some input channels of all cout blocks in a range. Channels are the streams that are
// read side by side; a row block's part of them is written in one piece.
#ifndef TCONV_DENSE_PACK_TASK
#define TCONV_DENSE_PACK_TASK
namespace tconv::cpu::dense {
struct PackTask {
  const Geometry* geometry;
  const Config* config;
  const void* weight;
  void* weights;  // packed
  int64_t group, ci_begin, ci_end, cout_block_begin, cout_block_end;
};
}  // namespace tconv::cpu::dense
#endif

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

// Where the eight rows of a block find their first tap, from the cout block's first weight on. Rows that do
// not exist repeat the first one; nobody reads their sums.
struct RowOffsets {
  int64_t at[kRows];
  bool consecutive = true;
};

HWY_INLINE RowOffsets OffsetsOf(const Geometry& g, const Config& c, const RowClass& rows, int64_t cout_block,
                                int64_t block) {
  RowOffsets out;
  const int64_t couts = std::min(c.cout_block, g.cout - cout_block * c.cout_block);
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t row = block * kRows + i;
    out.at[i] = row < couts * rows.residues ? row / rows.residues * g.k + rows.first + row % rows.residues
                                            : rows.first;
    out.consecutive = out.consecutive && out.at[i] == out.at[0] + i;
  }
  return out;
}

// One channel's taps of one row block. Offsets in locals: they stay in registers over all taps.
template <class T>
HWY_INLINE void GatherTaps(const T* from, const RowOffsets& rows, int64_t tap_step, int64_t taps, T* to) {
  const int64_t o0 = rows.at[0], o1 = rows.at[1], o2 = rows.at[2], o3 = rows.at[3];
  const int64_t o4 = rows.at[4], o5 = rows.at[5], o6 = rows.at[6], o7 = rows.at[7];
  for (int64_t tap = 0; tap < taps; ++tap, from += tap_step, to += kRows) {
    const T v0 = from[o0], v1 = from[o1], v2 = from[o2], v3 = from[o3];
    const T v4 = from[o4], v5 = from[o5], v6 = from[o6], v7 = from[o7];
    to[0] = v0, to[1] = v1, to[2] = v2, to[3] = v3;
    to[4] = v4, to[5] = v5, to[6] = v6, to[7] = v7;
  }
}

// As GatherTaps, widened by way of a buffer: conversions want vectors.
template <class T, class A>
HWY_INLINE void GatherTaps(const T* from, const RowOffsets& rows, int64_t tap_step, int64_t taps, A* to) {
  constexpr int64_t kTaps = 64;
  T gathered[kTaps * kRows];
  for (int64_t begin = 0; begin < taps; begin += kTaps) {
    const int64_t count = std::min(kTaps, taps - begin);
    GatherTaps(from + begin * tap_step, rows, tap_step, count, gathered);
    WidenRun(gathered, to + begin * kRows, count * kRows);
  }
}

template <class T, class A>
HWY_INLINE void CopyTaps(const T* from, int64_t tap_step, int64_t taps, A* to) {
  if (tap_step == kRows) return WidenRun(from, to, taps * kRows);
  for (int64_t tap = 0; tap < taps; ++tap) WidenRun(from + tap * tap_step, to + tap * kRows, kRows);
}

// Whether a value is infinite or NaN; count is a multiple of the rows, hence of every vector.
template <class A>
HWY_INLINE bool HasSpecial(const A* values, int64_t count) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = hn::MulAdd(hn::LoadU(d, values + i), hn::Zero(d), sum);
  A rest = 0;
  for (; i < count; ++i) rest += values[i] * A(0);
  return rest != 0 || rest != rest || !hn::AllTrue(d, hn::Eq(sum, hn::Zero(d)));
}

// Returns whether a weight is infinite or NaN.
template <class T, class A>
HWY_INLINE bool PackBlock(const PackTask& t, const RowClass& rows, int64_t cout_block, int64_t block, A* to) {
  const Geometry& g = *t.geometry;
  const RowOffsets offsets = OffsetsOf(g, *t.config, rows, cout_block, block);
  const T* group = static_cast<const T*>(t.weight) + t.group * g.cin * g.cout * g.k;
  bool special = false;
  for (int64_t tap = 0; tap < rows.taps; tap += t.config->tap_block) {
    const int64_t taps = std::min(t.config->tap_block, rows.taps - tap);
    A* const begin = to + (tap * g.cin + t.ci_begin * taps) * kRows;
    A* out = begin;
    for (int64_t ci = t.ci_begin; ci < t.ci_end; ++ci, out += taps * kRows) {
      const T* from = group + (ci * g.cout + cout_block * t.config->cout_block) * g.k + tap * g.tap_step;
      if (offsets.consecutive) {
        CopyTaps(from + offsets.at[0], g.tap_step, taps, out);
      } else {
        GatherTaps(from, offsets, g.tap_step, taps, out);
      }
    }
    special = HasSpecial(begin, out - begin) || special;
  }
  return special;
}

template <class T, class A>
HWY_INLINE bool PackChannels(const PackTask& t) {
  const Geometry& g = *t.geometry;
  bool special = false;
  A* group = static_cast<A*>(t.weights) + t.group * packed_group_elements(g, *t.config);
  for (int64_t cout_block = t.cout_block_begin; cout_block < t.cout_block_end; ++cout_block) {
    for (const RowClass& rows : g.classes) {
      for (int64_t block = 0; block < rows.blocks; ++block) {
        A* to = group + rows.weight_offset + (cout_block * rows.blocks + block) * block_elements(g, rows);
        special = PackBlock<T, A>(t, rows, cout_block, block, to) || special;
      }
    }
  }
  return special;
}

bool Pack(const PackTask& t) {
  switch (t.geometry->dtype) {
    case core::DType::f32:
      return PackChannels<float, float>(t);
    case core::DType::f64:
      return PackChannels<double, double>(t);
    case core::DType::f16:
      return PackChannels<F16, float>(t);
    case core::DType::bf16:
      return PackChannels<BF16, float>(t);
  }
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::dense {
namespace {

HWY_EXPORT(Pack);

constexpr int64_t kChannels = 16;           // streams that prefetchers follow
constexpr int64_t kTaskElements = 1 << 15;  // a task moves 128 KiB: some 20 us

}  // namespace

void pack(const Geometry& g, const Config& c, const void* weight, void* packed,
          const core::Executor& executor) {
  const int64_t blocks = cout_blocks(g, c), chunks = core::ceil_div(g.cin, kChannels);
  const int64_t block_weights = kChannels * c.cout_block * g.k;
  const int64_t blocks_per_task = std::clamp<int64_t>(kTaskElements / block_weights, 1, blocks);
  const int64_t ranges = core::ceil_div(blocks, blocks_per_task);
  PackedHeader& header = *static_cast<PackedHeader*>(packed);
  header = {};
  executor.run(g.groups * chunks * ranges, [&](int64_t index, int32_t) {
    const int64_t range = index % ranges, chunk = index / ranges % chunks;
    PackTask task{&g, &c, weight, static_cast<std::byte*>(packed) + sizeof(PackedHeader), 0, 0, 0, 0, 0};
    task.group = index / ranges / chunks;
    task.ci_begin = chunk * kChannels;
    task.ci_end = std::min(g.cin, task.ci_begin + kChannels);
    task.cout_block_begin = range * blocks_per_task;
    task.cout_block_end = std::min(blocks, task.cout_block_begin + blocks_per_task);
    if (TCONV_DISPATCH(Pack)(task)) {
      std::atomic_ref<int32_t>(header.special).store(1, std::memory_order_relaxed);
    }
  });
}

}  // namespace tconv::cpu::dense
#endif
