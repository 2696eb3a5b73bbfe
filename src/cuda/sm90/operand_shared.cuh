// SharedOperand: operands of x in shared memory, for taps that are not up to 4 neighbours, and for rows of x
// that begin anywhere. A warpgroup makes them for itself:
//
//   for each slab of 32 channels:                                                            two raw stages
//     each of its warps, 8 channels of 128 + halo positions: raw -> registers, rounded -> operands
//     for each tap j:  sums[u][row] += operands[u - j*step][channels] * packed[row][channels, j]    wgmma
//
// Each pair of warps reads every second raw stage. If the number of stages is odd, the pairs take turns at
// each stage, and a wait for a phase of its barrier could mistake the phase before the last one for it: the
// parity is the same. The two sync() of a slab, which operands need anyway, keep the pairs within one slab of
// each other, so that whoever waits for a stage's phase comes after a sync() with the warps that waited for
// the phase before.
//
// Operands lie as [channel block][position][8 channels], so that a tap is a number of 16-byte steps of a
// descriptor's address and costs no instruction but its wgmma. There are two buffers: one is filled while the
// other is multiplied. Later, staged outputs take their place.
//
// Rows that do not begin on 16 bytes, as tensor copies require, come by Sm90TmaSource::row_classes maps. Each
// map has the rows r of x (all samples' channels) with the same r modulo row_classes, which begin equally far
// after such a boundary. A map begins on the boundary, so a lane finds its position that much later in the
// map's part of a stage. Before a sample's beginning the map then has the end of the row before, and after a
// group's channels other rows: both are cleared.
#pragma once

#include "cuda/device/prologue.cuh"
#include "cuda/sm90/fp16_scale.cuh"
#include "cuda/sm90/tile_readers.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A lane's 8 channels at a position, as they are stored.
using RawUnit = uint32_t[8];

// 16-bit operands are used as they are.
template <class Mode>
class UnitMaker : public PlainTile {
 public:
  static_assert(sizeof(typename Mode::T) == 2);

  // To shared address `to`; the second part of split operands that many bytes later.
  __device__ void put(uint32_t to, uint32_t /*part*/, const RawUnit& v) {
    uint32_t pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = __byte_perm(v[2 * j], v[2 * j + 1], 0x5410);
    ptx::store_shared16(to, {pairs[0], pairs[1], pairs[2], pairs[3]});
  }
};

// float32 times a power of two, in float16, in two parts if operands are split. A warpgroup has one scale for
// a tile.
template <class Mode>
class ScaledMaker : public ScaledTile {
 public:
  // The bits of the largest finite magnitude.
  __device__ static uint32_t largest(const RawUnit& v) {
    uint32_t most = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      most = max(most, finite_magnitude(v[j]));
    }
    return most;
  }
  __device__ void start_tile(uint32_t most) {
    start(most);
  }
  // Looks for what is too small, or zero; what is too large becomes infinite.
  __device__ void put(uint32_t to, uint32_t part, const RawUnit& v) {
    const uint4 unit = scaled_unit(v, scale_.up());
    uint32_t least = kLeastOfNone;
    for (const uint32_t pair : {unit.x, unit.y, unit.z, unit.w}) least = ScaledTile::least(pair, least);
    // All lanes of the warp together: after a branch that only some lanes take, there are no uniform
    // registers.
    if (__any_sync(0xffffffffu, suspect(least))) {
#pragma unroll
      for (int j = 0; j < 8; ++j) review(v[j]);
    }
    ptx::store_shared16(to, unit);
    if constexpr (Mode::kParts == 2) ptx::store_shared16(to + part, rest_of_unit(v, scale_.up(), unit));
  }
};

template <>
class UnitMaker<Fp16Scaled> : public ScaledMaker<Fp16Scaled> {};
template <>
class UnitMaker<Fp16Split> : public ScaledMaker<Fp16Split> {};

template <class S>
class SharedOperand {
 public:
  using Mode = typename S::Mode;

  __device__ SharedOperand(const Sm90TmaParams& p, const Block& block, const Rings<S>& rings,
                           unsigned char* shared, int warp, int lane)
      : p_(p),
        warpgroup_(warp / 4),
        // Computed again: with the kernel's own value, registers spill, and n32 ci32 co64 l131072 k5 d3 takes
        // 12% longer.
        warp_(__shfl_sync(0xffffffffu, threadIdx.x / 32 % 4, 0)),
        lane_(threadIdx.x % 32),
        stages_(p, rings, shared, warp / 4, lane, warp_ % 2 * (8 / p.source.row_classes) * p.source.pitch),
        group_row_(block.group * p.sizes.cin_group) {
    if (warp_ >= 2) stages_.advance();
    operands_ = ptx::shared_address(shared + p.writer.shared) +
                warpgroup_ * (p.writer.windows ? 1 : 4) * p.writer.staged_bytes;
    const int positions = S::kPositions + p.source.halo;
    block_ = warp_ * positions * 16;
    find_channels(0);
    agreed_ = reinterpret_cast<volatile uint32_t*>(shared + p.source.shared_tiles) + 3 * kSm90MaxStages +
              kAgreed * warpgroup_;
    if (kIsScaled<Mode> && warp_ == 0 && lane_ == 0) agreed_[kTiny] = 0;
  }

  __device__ void sync() const { sync_warpgroup(warpgroup_); }

  // At the beginning of a tile, when all warps have stored the outputs of the last one.
  __device__ void start_tile(int tile) {
    const ColumnPlace place = place_of(p_, tile);
    first_position_ = static_cast<int>(p_.columns.first_u) - p_.source.halo + place.column;
    const bool classes = p_.source.row_classes > 1;
    foreign_ = classes && first_position_ < 0;
    channels_left_ = classes ? p_.sizes.cin_group - warp_ * 8 : kAll;
    channel_ = warp_ * 8;
    if (classes) find_channels(place.n * p_.source.sample_rows + group_row_);
    if constexpr (kIsScaled<Mode>) {
      // The scale, from every fourth position of the first slab.
      RawUnit v;
      load(v, p_.source.halo + warp_ * S::kWarpPositions + lane_ % S::kWarpPositions);
      const uint32_t most = __reduce_max_sync(0xffffffffu, maker_.largest(v));
      if (lane_ == 0) agreed_[warp_] = most;
      sync();
      maker_.start_tile(max(max(agreed_[0], agreed_[1]), max(agreed_[2], agreed_[3])));
    } else {
      sync();
    }
  }

  // The warp's 8 channels of a slab, from its stage; 32 positions at a time, loaded one turn ahead.
  __device__ void fill() {
    stages_.wait();
    const int last = S::kPositions + p_.source.halo - 1;
    uint32_t to = operands_ + (filled_ ^= 1) * Mode::kParts * 4 * (last + 1) * 16 + block_;
    RawUnit now, next;
    int position = lane_;
    load(now, position);
#pragma unroll 2
    for (int begin = 32; begin <= last; begin += 32) {
      const int ahead = min(begin + lane_, last);
      load(next, ahead);
      maker_.put(to + position * 16, 64 * (last + 1), now);
      position = ahead;
#pragma unroll
      for (int j = 0; j < 8; ++j) now[j] = next[j];
    }
    maker_.put(to + position * 16, 64 * (last + 1), now);
    if constexpr (kIsScaled<Mode>) {
      const uint32_t tiny = maker_.take_tiny();
      if (tiny > 0 && lane_ == 0) atomicAdd(const_cast<uint32_t*>(agreed_ + kTiny), tiny);
    }
    ptx::fence_async();
    stages_.release(stages_.full());
    stages_.advance();
    stages_.advance();
    channels_left_ -= 32;
    channel_ += 32;
  }
  // For the first tap of the slab that was filled last: the distance of channel blocks, and the address.
  __device__ uint32_t low() const {
    const uint32_t positions = S::kPositions + p_.source.halo,
                   buffer = filled_ * Mode::kParts * 4 * positions;
    return __shfl_sync(0xffffffffu, (positions << 16) + (operands_ >> 4) + buffer + p_.source.halo, 0);
  }
  // For the first or second 16 channels; for the first or second 64 positions; for the first or second
  // part.
  __device__ uint64_t descriptor(uint32_t low, int half, int product, int part) const {
    const uint32_t positions = S::kPositions + p_.source.halo;
    return descriptor(kRowsApart, low + half * 2 * positions + product * 8 + part * 4 * positions);
  }
  __device__ static uint64_t weights(uint32_t low) {
    return descriptor(128, low);
  }

  // exists(i): whether sum i is one of an output. A sync() came after the tile's last fill().
  template <class Sums, class Exists>
  __device__ void end_tile(const Sums& sums, const Exists& exists) {
    if constexpr (kIsScaled<Mode>) {
      const uint32_t tiny = agreed_[kTiny];
      maker_.end_tile(sums, tiny, p_.marks.least_sum, exists);
      if (!__any_sync(0xffffffffu, tiny != 0)) return;
      sync();
      if (warp_ == 0 && lane_ == 0) agreed_[kTiny] = 0;  // others add to it after start_tile's sync()
    }
  }
  __device__ int next_tile() const {
    return stages_.next_tile();
  }
  __device__ bool marked() const {
    return maker_.marked();
  }
  __device__ float unscale() const {
    return maker_.unscale();
  }

 private:
  static constexpr int kSize = sizeof(typename Mode::T);
  // Words of what the warps of a warpgroup agree on, an even number, since barriers lie behind them on 8
  // bytes; which of them counts tiny operands.
  static constexpr int kAgreed = kSm90AgreedBytes / 4, kTiny = 4;
  static constexpr int kAll = 1 << 30;  // channels: stages are zero after those of the group
  // Bytes. Rows 8 apart in wgmma are positions 16 apart, so that a warp has 32 neighbouring positions in both
  // wgmma.
  static constexpr uint32_t kRowsApart = 4 * S::kOwn * 16;

  __device__ static uint64_t descriptor(uint32_t along_rows, uint32_t low) {
    return uint64_t{along_rows >> 4} << 32 | low;
  }
  // Where the warp's channels lie in a stage whose first row is this row of x.
  __device__ void find_channels(int row) {
    const int classes = p_.source.row_classes, shift = __ffs(classes) - 1;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int m = (row + j) & (classes - 1), behind = m * p_.source.class_turn & (16 / kSize - 1);
      channels_[j] = m * p_.source.region_bytes + (j >> shift) * p_.source.pitch + behind * kSize;
    }
  }
  __device__ void load(RawUnit& v, int position) const {
    const uint32_t from = stages_.address() + position * kSize;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      v[j] = kSize == 4 ? ptx::load_shared4(from + channels_[j]) : ptx::load_shared2(from + channels_[j]);
    }
    if (foreign_ || channels_left_ < 8) {
      const bool before = foreign_ && first_position_ + position < 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] = before || j >= channels_left_ ? 0 : v[j];
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      v[j] = word_behind<typename Mode::T>(typename S::Prologue{}, v[j], group_row_ + channel_ + j);
    }
  }

  const Sm90TmaParams& p_;
  int warpgroup_, warp_, lane_;
  RawStages<S> stages_;
  int group_row_;                        // of x, in its sample
  int first_position_ = 0, filled_ = 0;  // of the tile's stages; the buffer
  int channel_ = 0;                      // of the group, the warp's next ones
  uint32_t operands_, block_;            // shared address; the warp's channel block in a buffer
  uint32_t channels_[8];                 // bytes from the stage's first row to the warp's channels
  volatile uint32_t* agreed_;  // the largest magnitudes of four warps; how many operands of the tile are tiny
  bool foreign_ = false;       // stages begin with what is not of the sample
  // Channels of the group from the warp's next one on: after them stages have other rows.
  int channels_left_ = kAll;
  UnitMaker<Mode> maker_;
};

#endif

}  // namespace tconv::cuda::sm90
