// Which stage of x a warp loads next, and its loads: by words, or by elements where rows of x lie in other
// ways.
#pragma once

#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Which stage: tile of columns, slab of channels, group of taps; in the order of the loops.
struct Cursor {
  ColumnTiles tiles;
  int slab, group = 0;

  __device__ Cursor(const Sm90GatherParams& p, const Block& block)
      : tiles(p, block), slab(block.first_slab) {}
  __device__ void advance(const Sm90GatherParams& p, const Block& block) {
    if (++group < p.source.tap_groups) return;
    group = 0;
    if (++slab < block.end_slab) return;
    slab = block.first_slab;
    tiles.next(p, block);
  }
  __device__ bool starts_tile(const Block& block) const { return group == 0 && slab == block.first_slab; }
};

// A stage is 4 channel blocks of `width` positions. Warps take its pieces in turn: 32 positions (64 in 16-bit
// types) of one block each, or at the end 8 of all blocks. How long a stage takes depends on the chain of a
// warp's instructions, so the usual case, whole slabs and positions of one sample, has few of them.
template <class S>
class GatherLoads {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Word = typename Mode::Word;

 protected:
  static constexpr int kWarps = kSm90Gatherers;
  // A lane loads one position, or two of a 16-bit type as one word: half the loads and half the registers.
  static constexpr int kPositions = sizeof(T) == 2 ? 2 : 1;
  static constexpr int kPiece = 32 * kPositions;
  static constexpr int kTail = 8 * kPositions;  // of the last piece or pieces, which span all 4 blocks
  // Pieces at once: the tile's columns and a halo of 8 (half of it for the widest tiles).
  static constexpr int kPieces = S::kColumns / kPiece * kSm90Blocks + 1;
  static constexpr int kMost = kPositions == 2 ? 3 : 5;
  static constexpr int kRounds = (kPieces + kWarps - 1) / kWarps > kMost ? kMost
                                                                         : (kPieces + kWarps - 1) / kWarps;
  using Batch = uint32_t[kRounds][Mode::kUnit];
  // How a stage's elements are loaded.
  enum class Way {
    whole,     // words of positions and channels that all exist
    words,     // words that exist or do not
    shifted,   // 16-bit types: pairs that lie across two words in every second channel; all exist
    elements,  // 16-bit types: one by one
    any        // folded samples, or channels far apart
  };
  // A warp without a piece would wait for no one at a barrier, and report stages that are not empty.
  static_assert(S::kColumns / kPiece * kSm90Blocks >= kWarps);

  __device__ GatherLoads(const Sm90GatherParams& p, const Block& block)
      : p_(p),
        group_(static_cast<const T*>(p.operands.x) +
               int64_t{block.group} * p.sizes.cin_group * p.sizes.x_step[1]),
        full_(p.source.width / kPiece * kSm90Blocks) {}

  // Of a stage.
  __device__ int pieces() const { return full_ + (p_.source.width % kPiece + kTail - 1) / kTail; }

  __device__ void aim(const Cursor& c) {
    const int back = p_.sizes.step * c.group * p_.source.tap_group + p_.source.halo;
    channel_ = c.slab * Mode::kSlab;
    start_ = c.tiles.tile * S::kColumns - back;
    from_ = group_;
    way_ = Way::any;
    if (p_.columns.folded) return;
    const int n = static_cast<int>(p_.columns.sample_tiles.divide(c.tiles.tile));
    start_ += static_cast<int>(p_.columns.first_u) -
              n * static_cast<int>(p_.columns.sample_tiles.value) * S::kColumns;
    from_ += int64_t{n} * p_.sizes.x_step[0];
    if (p_.sizes.x_step[1] < (1 << 24)) way_ = near_way();
  }

  __device__ Way near_way() const {
    const int length = static_cast<int>(p_.sizes.l), end = start_ + p_.source.width;
    const bool all_channels = channel_ + Mode::kSlab <= p_.sizes.cin_group;
    const bool whole = all_channels && start_ >= 0 && end + kTail <= length;
    if constexpr (kPositions == 2) {
      const uintptr_t odd = reinterpret_cast<uintptr_t>(from_ + start_) / 2 | p_.sizes.x_step[1] | start_;
      if (odd % 2 != 0) {
        // A word may begin one position before a pair, and another end one position behind it.
        const bool shifted = whole && p_.sizes.x_step[1] % 2 != 0 && start_ > 0 && end + kTail < length;
        return shifted ? Way::shifted : Way::elements;
      }
      if (length % 2 != 0 && end >= length) return Way::elements;  // the last position has no partner
    }
    return whole ? Way::whole : Way::words;
  }

  // The lane's block and first position of a piece.
  __device__ void find(int piece, int& block, int& slot) const {
    const int lane = threadIdx.x % 32;
    if (piece < full_) {
      block = piece % kSm90Blocks;
      slot = piece / kSm90Blocks * kPiece + lane * kPositions;
    } else {
      block = lane / 8;
      slot = full_ / kSm90Blocks * kPiece + (piece - full_) * kTail + lane % 8 * kPositions;
    }
  }

  // Calls each(round, block, slot) for the warp's pieces of one batch.
  template <class Each>
  __device__ __forceinline__ void for_pieces(int first, int pieces, const Each& each) const {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int piece = first + r * kWarps;
      if (piece >= pieces) break;
      int block, slot;
      find(piece, block, slot);
      each(r, block, slot);
    }
  }

  __device__ void load(Batch& batch, int first, int pieces) const {
    if (way_ == Way::whole) return load_words<true>(batch, first, pieces);
    if (way_ == Way::words) return load_words<false>(batch, first, pieces);
    if constexpr (kPositions == 2) {
      if (way_ == Way::shifted) return load_shifted(batch, first, pieces);
      if (way_ == Way::elements) return load_elements(batch, first, pieces);
    }
    load_any(batch, first, pieces);
  }

  // The address of the stage's first channel and position. Addresses are this base and offsets of 32 bits:
  // two instructions for each load.
  __device__ uint64_t stage_base() const {
    uint64_t base = reinterpret_cast<uint64_t>(from_ + channel_ * p_.sizes.x_step[1] + start_);
    asm("" : "+l"(base));
    return base;
  }
  __device__ uint32_t channel_bytes() const {
    return static_cast<uint32_t>(p_.sizes.x_step[1]) * sizeof(T);
  }
  // How many channels, from a block's first one on, exist at a position.
  __device__ int channels_at(int position, int block) const {
    const bool inside = static_cast<uint32_t>(position) < static_cast<uint32_t>(p_.sizes.l);
    return inside ? p_.sizes.cin_group - channel_ - block * Mode::kUnit : 0;
  }

  template <bool Whole>
  __device__ void load_words(Batch& batch, int first, int pieces) const {
    const uint64_t base = stage_base();
    const uint32_t step = channel_bytes();
    for_pieces(first, pieces, [&](int r, int block, int slot) {
      uint32_t offset = block * Mode::kUnit * step + slot * static_cast<uint32_t>(sizeof(T));
      const int channels = Whole ? Mode::kUnit : channels_at(start_ + slot, block);
#pragma unroll
      for (int j = 0; j < Mode::kUnit; ++j) {
        batch[r][j] = 0;
        if (Whole || j < channels) batch[r][j] = ptx::load_global4(base + offset);
        offset += step;
      }
    });
  }

  // Pairs of 16-bit elements that lie across two words in every second channel. All loads are under way
  // before the first pair is put together.
  __device__ void load_shifted(Batch& batch, int first, int pieces) const {
    const uint64_t at = stage_base(), base = at & ~uint64_t{3};
    const uint32_t step = channel_bytes(), late = static_cast<uint32_t>(at & 2);
    uint32_t behind[kRounds][Mode::kUnit / 2];
    for_pieces(first, pieces, [&](int r, int block, int slot) {
      uint32_t offset = late + block * Mode::kUnit * step + slot * 2;
      uint32_t across = (late != 0 ? offset : offset + step) + 2;  // of the first channel with such pairs
#pragma unroll
      for (int j = 0; j < Mode::kUnit; ++j) {
        batch[r][j] = ptx::load_global4(base + (offset & ~3u));
        offset += step;
        if (j % 2 != 0) continue;
        behind[r][j / 2] = ptx::load_global4(base + across);
        across += 2 * step;
      }
    });
    const uint32_t even = late != 0 ? 0x5432 : 0x3210, odd = late != 0 ? 0x3210 : 0x5432;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      if (first + r * kWarps >= pieces) break;
#pragma unroll
      for (int j = 0; j < Mode::kUnit; ++j) {
        batch[r][j] = __byte_perm(batch[r][j], behind[r][j / 2], j % 2 == 0 ? even : odd);
      }
    }
  }

  // The same of two elements that exist or do not.
  __device__ void load_elements(Batch& batch, int first, int pieces) const {
    const uint64_t base = stage_base();
    const uint32_t step = channel_bytes();
    for_pieces(first, pieces, [&](int r, int block, int slot) {
      uint32_t offset = block * Mode::kUnit * step + slot * 2;
      const int left = channels_at(start_ + slot, block), right = channels_at(start_ + slot + 1, block);
#pragma unroll
      for (int j = 0; j < Mode::kUnit; ++j) {
        const Word* pair = reinterpret_cast<const Word*>(base + offset);
        const uint32_t low = j < left ? __ldg(pair) : Word(0), high = j < right ? __ldg(pair + 1) : Word(0);
        batch[r][j] = low | high << 16;
        offset += step;
      }
    });
  }

  // Any samples, channels and alignment.
  __device__ void load_any(Batch& batch, int first, int pieces) const {
    for_pieces(first, pieces, [&](int r, int block, int slot) {
      const int channel = channel_ + block * Mode::kUnit;
#pragma unroll
      for (int q = 0; q < kPositions; ++q) {
        const T* from = nullptr;
        const bool inside = locate(start_ + slot + q, channel, from) && slot + q < p_.source.width;
#pragma unroll
        for (int j = 0; j < Mode::kUnit; ++j) {
          const uint32_t value = inside && channel + j < p_.sizes.cin_group
                                     ? __ldg(reinterpret_cast<const Word*>(from + j * p_.sizes.x_step[1]))
                                     : Word(0);
          batch[r][j] = q == 0 ? value : batch[r][j] | value << 16;
        }
      }
    });
  }

  const Sm90GatherParams& p_;
  int channel_ = 0;  // of the stage's first block

 private:
  // Where a position of a channel is; false if it is outside x.
  __device__ bool locate(int position, int channel, const T*& from) const {
    const T* sample = from_;
    bool inside = true;
    if (p_.columns.folded) {
      const int n = position < 0
                        ? p_.sizes.samples
                        : static_cast<int>(p_.columns.sample_pitch.divide(static_cast<uint32_t>(position)));
      inside = n < p_.sizes.samples;
      position += static_cast<int>(p_.columns.first_u) - n * p_.columns.sample_columns;
      sample += int64_t{n} * p_.sizes.x_step[0];
    }
    from = sample + channel * p_.sizes.x_step[1] + position;
    return inside && static_cast<uint32_t>(position) < static_cast<uint32_t>(p_.sizes.l);
  }

  const T* group_;
  int full_;                 // pieces of one block
  const T* from_ = nullptr;  // the sample
  int start_ = 0;            // position in x of the stage's first slot
  Way way_ = Way::any;
};

#endif

}  // namespace tconv::cuda::sm90
