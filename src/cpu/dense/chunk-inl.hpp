// Raw weights of a few units of a depth block, packed by the thread that reads them: between the tiles of one
// chunk it packs some channels of the next, and the tiles fetch the weights of the channels after those.
#if defined(TCONV_DENSE_CHUNK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_CHUNK_INL
#undef TCONV_DENSE_CHUNK_INL
#else
#define TCONV_DENSE_CHUNK_INL
#endif

#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/dense/compute.hpp"
#include "cpu/dense/microkernel-inl.hpp"
#include "cpu/dense/pack_rows-inl.hpp"
#include "cpu/dense/panel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

// Channels packed at a time. Rows of raw weights often lie many pages apart, in few sets of a cache: what is
// fetched must not evict itself.
inline constexpr int64_t kChunkChannels = 64, kChunkPagedChannels = 16, kPageBytes = 4096;

template <class T, class A>
class Chunk {
 public:
  HWY_INLINE Chunk() {}
  HWY_INLINE Chunk(const Geometry& g, const Config& c, const DepthBlock& depth, int64_t unit_begin,
                   int64_t unit_end, const T* group, A* to)
      : g_(&g), c_(&c), depth_(depth), unit_begin_(unit_begin), unit_end_(unit_end), group_(group), to_(to) {
    done_ = fetched_ = 0;
    const int64_t first = cout_block_of(unit_begin), last = cout_block_of(unit_end - 1);
    const int64_t couts = std::min(g.cout, (last + 1) * c.cout_block) - first * c.cout_block;
    const int64_t bytes = couts * g.k * static_cast<int64_t>(sizeof(T));
    const bool paged = g.cout * g.k * static_cast<int64_t>(sizeof(T)) % kPageBytes == 0;
    quantum_ = paged ? kChunkPagedChannels : kChunkChannels;
    run_ = core::ceil_div(bytes, kLineBytes) + 1;  // raw rows begin anywhere in a line
  }

  // The weights of one row block of a unit, [ci][tap][8].
  HWY_INLINE const A* block(int64_t unit, int which, int64_t block) const {
    return to_ + place(unit, which, block);
  }
  int64_t unit_end() const { return unit_end_; }
  const DepthBlock& depth() const { return depth_; }
  bool special() const { return special_; }

  // Packs all that is left.
  HWY_NOINLINE void finish() {
    while (done_ < channels()) pack_some();
  }
  // Step `step` of the `steps` in which everything is packed; returns what the step's tile should prefetch.
  HWY_INLINE LinesAhead advance(int64_t step, int64_t steps) {
    const int64_t parts = core::ceil_div(channels(), quantum_);
    const int64_t wanted = parts * (step + 1) / steps * quantum_;
    while (done_ < std::min(wanted, channels())) pack_some();
    const int64_t all = channels() * run_;
    const int64_t until = std::min(all, all * (step + 1) / steps + quantum_ * run_);
    LinesAhead lines;
    if (fetched_ >= until) return lines;
    const int64_t channel = fetched_ / run_;
    lines.at = reinterpret_cast<const char*>(row(channel)) + fetched_ % run_ * kLineBytes;
    lines.of_run = run_;
    lines.place = fetched_ % run_;
    lines.run_step = g_->cout * g_->k * static_cast<int64_t>(sizeof(T));
    lines.left = until - fetched_;
    fetched_ = until;
    return lines;
  }

 private:
  int64_t channels() const { return depth_.ci_end - depth_.ci_begin; }
  int64_t cout_block_of(int64_t unit) const {
    return c_->whole ? unit : unit / (g_->classes[0].blocks + g_->classes[1].blocks);
  }
  // The chunk's first weight in a channel of the depth block.
  const T* row(int64_t channel) const {
    return group_ +
           ((depth_.ci_begin + channel) * g_->cout + cout_block_of(unit_begin_) * c_->cout_block) * g_->k;
  }
  int64_t place(int64_t unit, int which, int64_t block) const {
    const int64_t unit_at = (unit - unit_begin_) * chunk_unit_elements(*g_, *c_);
    if (!c_->whole) return unit_at;
    const int64_t before = which == 0 ? 0 : g_->classes[0].blocks * g_->classes[0].taps;
    return unit_at + (before + block * g_->classes[which].taps) * c_->cin_block * kRows;
  }

  // Row block `block` of a class of some units.
  HWY_INLINE void pack_block(int64_t unit, int64_t units, int which, int64_t block, int64_t count) {
    const RowClass& rows = g_->classes[which];
    if (rows.taps == 0 || units <= 0) return;
    const int64_t cout_block = cout_block_of(unit), block_step = c_->cout_block * g_->k;
    const T* weight = row(done_) + (cout_block - cout_block_of(unit_begin_)) * block_step;
    const RowsFrom<T> from{weight,     g_->cout * g_->k,
                           count,      g_->tap_step,
                           rows.taps,  units,
                           block_step, chunk_unit_elements(*g_, *c_)};
    A* to = to_ + place(unit, which, block) + done_ * rows.taps * kRows;
    special_ = PackRows(from, OffsetsOf(*g_, *c_, rows, cout_block, block), to) || special_;
  }
  HWY_NOINLINE void pack_some() {
    const int64_t count = std::min(quantum_, channels() - done_);
    const int64_t blocks0 = g_->classes[0].blocks, blocks1 = g_->classes[1].blocks;
    if (c_->whole) {
      const bool partial = unit_end_ * c_->cout_block > g_->cout;  // the last unit, which has fewer couts
      const int64_t full = unit_end_ - (partial ? 1 : 0);
      for (int64_t block = 0; block < blocks0 + blocks1; ++block) {
        const int which = block < blocks0 ? 0 : 1;
        const int64_t place = block - (which == 0 ? 0 : blocks0);
        pack_block(unit_begin_, full - unit_begin_, which, place, count);
        if (partial) pack_block(full, 1, which, place, count);
      }
    } else {
      for (int64_t unit = unit_begin_; unit < unit_end_; ++unit) {
        const int64_t block = unit % (blocks0 + blocks1);
        pack_block(unit, 1, block < blocks0 ? 0 : 1, block < blocks0 ? block : block - blocks0, count);
      }
    }
    done_ += count;
  }

  const Geometry* g_ = nullptr;
  const Config* c_ = nullptr;
  DepthBlock depth_{};
  int64_t unit_begin_ = 0, unit_end_ = 0;
  const T* group_ = nullptr;  // raw
  A* to_ = nullptr;
  int64_t quantum_ = 1;             // channels packed at a time
  int64_t run_ = 1;                 // cache lines of a channel
  int64_t done_ = 0, fetched_ = 0;  // channels; lines
  bool special_ = false;
};

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
