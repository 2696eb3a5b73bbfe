// GatherSource: x, element by element through the registers of seven warps, into one ring of stages. It makes
// operands on the way: rounds, splits or scales each element once.
#pragma once

#include "cuda/sm90/fp16_scale.cuh"

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

// A stage is 4 channel blocks of `width` positions. A warp takes pieces of it in turn: one block's 32 (of
// 16-bit types 64) positions each, or at the end 8 of all blocks. The chain of a warp's instructions is what
// a stage takes, so the usual case, whole slabs and positions of one sample, has few of them.
template <class S>
class GatherSource {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Word = typename Mode::Word;

  __device__ GatherSource(const Sm90GatherParams& p, const Block& block, unsigned char* shared)
      : p_(p),
        group_(static_cast<const T*>(p.operands.x) +
               int64_t{block.group} * p.sizes.cin_group * p.sizes.x_step[1]),
        first_channel_(block.group * p.sizes.cin_group),
        shared_(shared),
        warp_((threadIdx.x - kSm90Consumers) / 32),
        full_(p.source.width / kPiece * kSm90Blocks) {}

  // Loads are queued before the wait for an empty stage: they are on their way meanwhile.
  __device__ void run(const Block& block, const Rings<S>& rings) {
    const int rest = p_.source.width % kPiece, pieces = full_ + (rest + kTail - 1) / kTail;
    const uint32_t shared = ptx::shared_address(shared_);
    RingPlace stage;
    for (Cursor c(p_, block); c.tiles.there(p_); c.advance(p_, block)) {
      aim(c);
      const uint32_t to = shared + stage.at * p_.source.stage_bytes;
      for (int first = warp_; first < pieces; first += kRounds * kWarps) {
        uint32_t batch[kRounds][Mode::kUnit];
        if (plain_ && whole_) {
          load<true>(batch, first, pieces);
        } else if (plain_) {
          load<false>(batch, first, pieces);
        } else {
          load_some(batch, first, pieces);
        }
        if constexpr (kHasPrologue<typename S::Prologue>) prepare(batch, first, pieces);
        if constexpr (kScaled) {
          if (first == warp_ && c.starts_tile(block)) choose_scale(batch, first, pieces);
        }
        if (first == warp_) ptx::barrier_wait(rings.empty(0, stage.at), stage.parity ^ 1);
        store(batch, to, first, pieces);
      }
      ptx::fence_async();
      if constexpr (Mode::kParts == 2 || kScaled) tell(stage.at);
      __syncwarp();
      if (threadIdx.x % 32 == 0) ptx::barrier_arrive(rings.full(0, stage.at));
      stage.advance(p_.source.stages);
    }
  }

 private:
  static constexpr bool kScaled = std::is_same_v<Mode, Fp16Scaled>;
  static constexpr int kWarps = kSm90Gatherers;
  // A lane loads one position, or two of a 16-bit type as one word: half the loads, half the registers.
  static constexpr int kPositions = sizeof(T) == 2 ? 2 : 1;
  static constexpr int kPiece = 32 * kPositions;
  static constexpr int kTail = 8 * kPositions;  // of the last piece or pieces, which have all 4 blocks
  // Pieces at once: the tile's columns and a halo of 8 (or, of the widest tiles, half of it).
  static constexpr int kPieces = S::kColumns / kPiece * kSm90Blocks + 1;
  static constexpr int kMost = kPositions == 2 ? 3 : 5;
  static constexpr int kRounds = (kPieces + kWarps - 1) / kWarps > kMost ? kMost
                                                                         : (kPieces + kWarps - 1) / kWarps;
  using Batch = uint32_t[kRounds][Mode::kUnit];
  // A warp without a piece would come to no barrier of the others, and tell of stages that are not empty.
  static_assert(S::kColumns / kPiece * kSm90Blocks >= kWarps);

  __device__ void aim(const Cursor& c) {
    const int back = p_.sizes.step * c.group * p_.source.tap_group + p_.source.halo;
    channel_ = c.slab * Mode::kSlab;
    start_ = c.tiles.tile * S::kColumns - back;
    from_ = group_;
    plain_ = whole_ = false;
    if (p_.columns.folded) return;
    const int n = static_cast<int>(p_.columns.sample_tiles.divide(c.tiles.tile));
    start_ += static_cast<int>(p_.columns.first_u) -
              n * static_cast<int>(p_.columns.sample_tiles.value) * S::kColumns;
    from_ += int64_t{n} * p_.sizes.x_step[0];
    const int length = static_cast<int>(p_.sizes.l);
    plain_ = channel_ + Mode::kSlab <= p_.sizes.cin_group && p_.sizes.x_step[1] < (1 << 24);
    whole_ = start_ >= 0 && start_ + p_.source.width + kTail <= length;
    if constexpr (kPositions == 2) {
      // Every pair is a word, and the last position has its pair.
      const uintptr_t odd = reinterpret_cast<uintptr_t>(from_ + start_) / 2 | p_.sizes.x_step[1] | start_;
      plain_ = plain_ && odd % 2 == 0 && (length % 2 == 0 || start_ + p_.source.width < length);
    }
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

  template <bool Whole>
  __device__ void load(Batch& batch, int first, int pieces) const {
    // Addresses are one base and offsets of 32 bits: two instructions a load.
    uint64_t base = reinterpret_cast<uint64_t>(from_ + channel_ * p_.sizes.x_step[1] + start_);
    asm("" : "+l"(base));
    const uint32_t step = static_cast<uint32_t>(p_.sizes.x_step[1]) * sizeof(T);
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int piece = first + r * kWarps;
      if (piece >= pieces) break;
      int block, slot;
      find(piece, block, slot);
      uint32_t offset = block * Mode::kUnit * step + slot * static_cast<uint32_t>(sizeof(T));
      if (!Whole && static_cast<uint32_t>(start_ + slot) >= static_cast<uint32_t>(p_.sizes.l)) {
#pragma unroll
        for (int j = 0; j < Mode::kUnit; ++j) batch[r][j] = 0;
      } else {
#pragma unroll
        for (int j = 0; j < Mode::kUnit; ++j) {
          batch[r][j] = ptx::load_global4(base + offset);
          offset += step;
        }
      }
    }
  }

  // Any samples, channels and alignment.
  __device__ void load_some(Batch& batch, int first, int pieces) const {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int piece = first + r * kWarps;
      if (piece >= pieces) break;
      int block, slot;
      find(piece, block, slot);
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
    }
  }

  // What the prologue makes of x.
  __device__ void prepare(Batch& batch, int first, int pieces) const {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int piece = first + r * kWarps;
      if (piece >= pieces) break;
      int block, slot;
      find(piece, block, slot);
      const int channel = first_channel_ + channel_ + block * Mode::kUnit;
#pragma unroll
      for (int j = 0; j < Mode::kUnit; ++j)
        batch[r][j] = word_behind<T>(typename S::Prologue{}, batch[r][j], channel + j);
    }
  }

  // Where a position of a channel lies; false outside of x.
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

  __device__ void store(const Batch& batch, uint32_t stage, int first, int pieces) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int piece = first + r * kWarps;
      if (piece >= pieces) break;
      int block, slot;
      find(piece, block, slot);
      if (slot >= p_.source.width) break;
      const uint32_t to = stage + (block * p_.source.pitch + slot) * 16;
      if constexpr (kPositions == 2) {
        const uint32_t(&v)[8] = batch[r];
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          const uint32_t which = q == 0 ? 0x5410 : 0x7632;
          ptx::store_shared16(to + q * 16, {__byte_perm(v[0], v[1], which), __byte_perm(v[2], v[3], which),
                                            __byte_perm(v[4], v[5], which), __byte_perm(v[6], v[7], which)});
        }
      } else if constexpr (kScaled) {
        ptx::store_shared16(to, hold(batch[r]));
      } else {
        uint4 parts[Mode::kParts];
        Mode::operand(batch[r], parts);
        if constexpr (Mode::kParts == 2) mark_ = mark_ || Mode::too_small(batch[r]);
#pragma unroll
        for (int q = 0; q < Mode::kParts; ++q) {
          ptx::store_shared16(to + q * kSm90Blocks * p_.source.pitch * 16, parts[q]);
        }
      }
    }
  }

  // The tile's scale, from the largest finite magnitude of its first stage (of its first batch).
  __device__ void choose_scale(const Batch& batch, int first, int pieces) {
    uint32_t most = 0;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      if (first + r * kWarps >= pieces) break;
#pragma unroll
      for (int j = 0; j < Mode::kUnit; ++j) most = max(most, finite_magnitude(batch[r][j]));
    }
    most = __reduce_max_sync(0xffffffffu, most);
    turn_ ^= 1;
    volatile uint32_t* agreed = reinterpret_cast<uint32_t*>(shared_ + p_.source.shared_scale) + 8 * turn_;
    if (threadIdx.x % 32 == 0) agreed[warp_] = most;
    sync_warps(NamedBarrier::scale, kSm90Producers);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) most = max(most, agreed[w]);
    scale_ = Fp16Scale(most);
  }

  // 8 numbers in float16. What is not zero must lie in [2^-14, 2^15] after scaling.
  __device__ uint4 hold(const uint32_t (&v)[8]) {
    constexpr uint32_t kRange = 2u * (29u << 23);
    const uint32_t least = scale_.twice_least();
    uint32_t furthest = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) furthest = max(furthest, 2u * v[j] - least);
    if (furthest > kRange) {
#pragma unroll
      for (int j = 0; j < 8; ++j) mark_ = mark_ || (2u * v[j] != 0 && 2u * v[j] - least > kRange);
    }
    return scaled_unit(v, scale_.up());
  }

  // What the warp saw in the stage, and the tile's scale.
  __device__ void tell(int stage) {
    const bool marked = __any_sync(0xffffffffu, mark_);
    mark_ = false;
    if (threadIdx.x % 32 != 0) return;
    shared_[p_.source.shared_marks + 8 * stage + warp_] = marked;
    if constexpr (kScaled) {
      if (warp_ == 0) reinterpret_cast<float*>(shared_ + p_.source.shared_scale)[16 + stage] = scale_.down();
    }
  }

  const Sm90GatherParams& p_;
  const T* group_;
  int first_channel_;  // of x, the group's
  unsigned char* shared_;
  int warp_, full_;          // pieces of one block
  const T* from_ = nullptr;  // the sample
  int start_ = 0;            // position in x of the stage's first slot
  int channel_ = 0;
  bool plain_ = false, whole_ = false;
  bool mark_ = false;  // an operand too small to split, or out of float16's range
  int turn_ = 0;
  Fp16Scale scale_;
};

#endif

}  // namespace tconv::cuda::sm90
