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
#include "cpu/dense/pack_rows-inl.hpp"

// What one task packs: some input channels of all cout blocks in a range. Channels are the streams that are
// read side by side; a row block's part of each is written in one piece.
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

// Row block `block` of some cout blocks that have the same rows. Returns whether a weight is infinite or NaN.
template <class T, class A>
HWY_INLINE bool PackBlocks(const PackTask& t, const RowClass& rows, int64_t block, int64_t cout_block,
                           int64_t cout_blocks) {
  if (cout_blocks <= 0) return false;
  const Geometry& g = *t.geometry;
  const RowOffsets offsets = OffsetsOf(g, *t.config, rows, cout_block, block);
  const T* group = static_cast<const T*>(t.weight) + t.group * g.cin * g.cout * g.k;
  const int64_t elements = block_elements(g, rows), block_step = t.config->cout_block * g.k;
  A* to = static_cast<A*>(t.weights) + t.group * packed_group_elements(g, *t.config) + rows.weight_offset +
          (cout_block * rows.blocks + block) * elements;
  bool special = false;
  for (int64_t tap = 0; tap < rows.taps; tap += t.config->tap_block) {
    const int64_t taps = std::min(t.config->tap_block, rows.taps - tap);
    const T* weight = group + t.ci_begin * g.cout * g.k + cout_block * block_step + tap * g.tap_step;
    const RowsFrom<T> from{weight,      g.cout * g.k, t.ci_end - t.ci_begin, g.tap_step, taps,
                           cout_blocks, block_step,   rows.blocks * elements};
    special = PackRows(from, offsets, to + (tap * g.cin + t.ci_begin * taps) * kRows) || special;
  }
  return special;
}

template <class T, class A>
HWY_INLINE bool PackChannels(const PackTask& t) {
  const Geometry& g = *t.geometry;
  // Only the last cout block may have fewer rows than the others.
  const bool partial = t.cout_block_end * t.config->cout_block > g.cout;
  const int64_t full_end = t.cout_block_end - (partial ? 1 : 0);
  bool special = false;
  for (const RowClass& rows : g.classes) {
    if (rows.taps == 0) continue;
    for (int64_t block = 0; block < rows.blocks; ++block) {
      special =
          PackBlocks<T, A>(t, rows, block, t.cout_block_begin, full_end - t.cout_block_begin) || special;
      if (partial) special = PackBlocks<T, A>(t, rows, block, full_end, 1) || special;
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
