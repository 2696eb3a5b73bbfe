// The x stages: a block loads the next stage while it multiplies the present one.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/sm80/dense.hpp"

namespace tconv::cuda::sm80 {

// A tile shape in one mode: Rw x Cw warps of MI x NI mma tiles (16 x 8).
template <class M, int Rw, int Cw, int Mi, int Ni, int MinBlocks>
struct Shape {
  using Mode = M;
  static constexpr int kWarpRows = Rw, kWarpColumns = Cw, kMi = Mi, kNi = Ni;
  using WarpTile = MmaWarpTile<Mi, Ni>;
  static constexpr int kThreads = 32 * Rw * Cw, kMinBlocks = MinBlocks;
  static constexpr int kRowTiles = Rw * Mi, kRows = 16 * kRowTiles, kColumns = 8 * Cw * Ni;
  static constexpr int kSlots = kRows == 128 ? 4 : 6;
  // The units that a thread holds: block(i) = its own block + i * kBlocksApart, at one position.
  static_assert(kThreads % kColumns == 0);
  static constexpr int kBlocksApart = kThreads / kColumns;
  static constexpr int kHeld = kSm80Blocks / kBlocksApart;
};

// Which stage: tile of columns, slab of channels, group of taps; in the order of the loops.
struct Cursor {
  int tile, slab, group;

  __device__ void advance(const Sm80Params& p, int first_slab, int end_slab) {
    if (++group < p.tap_groups) return;
    group = 0;
    if (++slab < end_slab) return;
    slab = first_slab;
    tile += p.walkers;
  }
};

template <class S>
class Input {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Word = typename Mode::Word;

  __device__ Input(const Sm80Params& p, int group)
      : p_(p), group_(static_cast<const T*>(p.x) + int64_t{group} * p.cin_group * p.x_step[1]) {}

  // Points the loads at a stage. Slot i of its positions is start + i.
  __device__ void aim(const Cursor& c) {
    const int back = p_.step * (c.group * p_.tap_group + p_.tap_group - 1);
    channel_ = c.slab * Mode::kSlab;
    if (p_.folded) {
      start_ = int64_t{c.tile} * S::kColumns - back;
      return;
    }
    const int n = static_cast<int>(p_.sample_tiles.divide(c.tile));
    start_ = p_.first_u + int64_t{c.tile - n * static_cast<int>(p_.sample_tiles.value)} * S::kColumns - back;
    sample_ = group_ + int64_t{n} * p_.x_step[0];
  }

  // A stage passes through registers in two parts: first the tile's columns, one to each thread (or one to
  // each thread and channel block), then the halo before them. load() queues the loads of a part.
  __device__ void load_columns() {
    const int slot = p_.halo + threadIdx.x % S::kColumns;
    const int block = threadIdx.x / S::kColumns;
    const Place x = place(slot, block);
#pragma unroll
    for (int i = 0; i < S::kHeld; ++i) load_unit(units_[i], x, i * S::kBlocksApart * Mode::kUnit);
  }
  __device__ void load_halo() {
    const int slot = threadIdx.x & (1 << p_.halo_shift) - 1, block = threadIdx.x >> p_.halo_shift;
    if (slot >= p_.halo || block >= kSm80Blocks) return;
    load_unit(units_[0], place(slot, block), 0);
  }

  // Writes that part, rounded or split, to the stage at `stage`. ahead: it belongs to the next tile already.
  __device__ void store_columns(unsigned char* stage, bool ahead) {
    const int slot = p_.halo + threadIdx.x % S::kColumns, block = threadIdx.x / S::kColumns;
#pragma unroll
    for (int i = 0; i < S::kHeld; ++i) {
      store_unit(units_[i], stage, block + i * S::kBlocksApart, slot, ahead);
    }
  }
  __device__ void store_halo(unsigned char* stage, bool ahead) {
    const int slot = threadIdx.x & (1 << p_.halo_shift) - 1, block = threadIdx.x >> p_.halo_shift;
    if (slot >= p_.halo || block >= kSm80Blocks) return;
    store_unit(units_[0], stage, block, slot, ahead);
  }

  // Whether the tile that ends here had an operand too small to split; what the next tile has seen stays.
  __device__ bool take_small() {
    const bool small = small_ & 1;
    small_ >>= 1;
    return small;
  }

  // Prefetches a later stage into L2, so that its loads will not wait for DRAM. Only a hint.
  __device__ void prefetch(const Cursor& c) const {
    if (p_.folded) return;
    const int n = static_cast<int>(p_.sample_tiles.divide(c.tile));
    const int back = p_.step * (c.group * p_.tap_group + p_.tap_group - 1);
    const int64_t start =
        p_.first_u + int64_t{c.tile - n * static_cast<int>(p_.sample_tiles.value)} * S::kColumns - back;
    constexpr int kLine = 128 / sizeof(T);
    const int lines = (p_.width + kLine - 1) / kLine;
    for (int i = threadIdx.x; i < lines * Mode::kSlab; i += S::kThreads) {
      const int channel = c.slab * Mode::kSlab + i % Mode::kSlab;
      const int64_t position = start + i / Mode::kSlab * kLine;
      if (channel < p_.cin_group && static_cast<uint64_t>(position) < static_cast<uint64_t>(p_.l)) {
        ptx::prefetch_l2(group_ + int64_t{n} * p_.x_step[0] + channel * p_.x_step[1] + position);
      }
    }
  }

 private:
  using Unit = Word[Mode::kUnit];

  // A position's first channel in a block, and how many channels exist from it on; 0 outside x.
  struct Place {
    const Word* at;
    int channels;
  };

  __device__ Place place(int slot, int block) const {
    const int channel = channel_ + block * Mode::kUnit;
    const T* sample = sample_;
    int64_t position = start_ + slot;
    bool inside = true;
    if (p_.folded) {
      const int n = position < 0 ? p_.samples
                                 : static_cast<int>(p_.sample_pitch.divide(static_cast<uint32_t>(position)));
      inside = n < p_.samples;
      position += p_.first_u - int64_t{n} * p_.sample_columns;
      sample = group_ + int64_t{n} * p_.x_step[0];
    }
    inside = inside && static_cast<uint64_t>(position) < static_cast<uint64_t>(p_.l);
    return {reinterpret_cast<const Word*>(sample + channel * p_.x_step[1] + position),
            inside ? p_.cin_group - channel : 0};
  }

  // The unit that is `ahead` channels further.
  __device__ void load_unit(Unit& v, const Place& x, int ahead) const {
    const Word* at = x.at + ahead * p_.x_step[1];
#pragma unroll
    for (int j = 0; j < Mode::kUnit; ++j) {
      v[j] = ahead + j < x.channels ? __ldg(at) : Word(0);
      at += p_.x_step[1];
    }
  }

  __device__ void store_unit(const Unit& v, unsigned char* stage, int block, int slot, bool ahead) {
    uint4 parts[Mode::kParts];
    Mode::operand(v, parts);
    if (Mode::too_small(v)) small_ |= ahead ? 2 : 1;
#pragma unroll
    for (int q = 0; q < Mode::kParts; ++q) {
      const int unit = (q * kSm80Blocks + block) * p_.x_pitch + slot;
      *reinterpret_cast<uint4*>(stage + unit * kSm80UnitBytes) = parts[q];
    }
  }

  const Sm80Params& p_;
  const T* group_;
  const T* sample_ = nullptr;
  int64_t start_ = 0;
  int channel_ = 0;
  uint32_t small_ = 0;
  Unit units_[S::kHeld];
};

}  // namespace tconv::cuda::sm80
