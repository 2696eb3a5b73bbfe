#include "cpu/dense/pack.hpp"

#include <algorithm>

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
  void* packed;
  int64_t group, ci_begin, ci_end, cout_block_begin, cout_block_end;
};
}  // namespace tconv::cpu::dense
#endif

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

// Where the eight rows of a block find their first tap, from the cout block's first weight on; -1: no row.
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
    const bool valid = row < couts * rows.residues;
    out.at[i] = valid ? row / rows.residues * g.k + rows.first + row % rows.residues : -1;
    out.consecutive = out.consecutive && valid && out.at[i] == out.at[0] + i;
  }
  return out;
}

// One channel, one row block, one tap block. Weights are gathered as they are stored and widened in runs.
template <class T, class A>
HWY_INLINE void PackTaps(const T* from, const RowOffsets& offsets, int64_t tap_step, int64_t taps, A* to) {
  constexpr int64_t kTaps = 16;
  T gathered[kTaps * kRows];
  for (int64_t begin = 0; begin < taps; begin += kTaps) {
    const int64_t count = std::min(kTaps, taps - begin);
    for (int64_t tap = 0; tap < count; ++tap) {
      const T* at = from + (begin + tap) * tap_step;
      for (int64_t i = 0; i < kRows; ++i) {
        gathered[tap * kRows + i] = offsets.at[i] < 0 ? T{} : at[offsets.at[i]];
      }
    }
    WidenRun(gathered, to + begin * kRows, count * kRows);
  }
}

template <class T, class A>
HWY_INLINE void PackConsecutive(const T* from, int64_t tap_step, int64_t taps, A* to) {
  if (tap_step == kRows) return WidenRun(from, to, taps * kRows);
  for (int64_t tap = 0; tap < taps; ++tap) WidenRun(from + tap * tap_step, to + tap * kRows, kRows);
}

template <class T, class A>
HWY_INLINE void PackBlock(const PackTask& t, const RowClass& rows, int64_t cout_block, int64_t block, A* to) {
  const Geometry& g = *t.geometry;
  const RowOffsets offsets = OffsetsOf(g, *t.config, rows, cout_block, block);
  const T* group = static_cast<const T*>(t.weight) + t.group * g.cin * g.cout * g.k;
  for (int64_t tap = 0; tap < rows.taps; tap += t.config->tap_block) {
    const int64_t taps = std::min(t.config->tap_block, rows.taps - tap);
    A* out = to + (tap * g.cin + t.ci_begin * taps) * kRows;
    for (int64_t ci = t.ci_begin; ci < t.ci_end; ++ci, out += taps * kRows) {
      const T* from = group + (ci * g.cout + cout_block * t.config->cout_block) * g.k + tap * g.tap_step;
      if (offsets.consecutive) {
        PackConsecutive(from + offsets.at[0], g.tap_step, taps, out);
      } else {
        PackTaps(from, offsets, g.tap_step, taps, out);
      }
    }
  }
}

template <class T, class A>
HWY_INLINE void PackChannels(const PackTask& t) {
  const Geometry& g = *t.geometry;
  A* group = static_cast<A*>(t.packed) + t.group * packed_group_elements(g, *t.config);
  for (int64_t cout_block = t.cout_block_begin; cout_block < t.cout_block_end; ++cout_block) {
    for (const RowClass& rows : g.classes) {
      for (int64_t block = 0; block < rows.blocks; ++block) {
        A* to = group + rows.weight_offset + (cout_block * rows.blocks + block) * block_elements(g, rows);
        PackBlock<T, A>(t, rows, cout_block, block, to);
      }
    }
  }
}

void Pack(const PackTask& t) {
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
  executor.run(g.groups * chunks * ranges, [&](int64_t index, int32_t) {
    const int64_t range = index % ranges, chunk = index / ranges % chunks;
    const PackTask task{&g,
                        &c,
                        weight,
                        packed,
                        index / ranges / chunks,
                        chunk * kChannels,
                        std::min(g.cin, (chunk + 1) * kChannels),
                        range * blocks_per_task,
                        std::min(blocks, (range + 1) * blocks_per_task)};
    HWY_DYNAMIC_DISPATCH(Pack)(task);
  });
}

}  // namespace tconv::cpu::dense
#endif
