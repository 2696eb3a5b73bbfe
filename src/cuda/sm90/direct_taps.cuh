// direct.cuh's sums where taps are not up to 4 neighbours, or rows of x begin anywhere. A warpgroup makes
// operands of x for itself:
//
//   for each slab of 32 channels:                                                            two raw stages
//     each of its warps, 8 channels of 128 + halo positions: raw -> registers, rounded -> operands
//     for each tap j:  sums[u][row] += operands[u - j*step][channels] * packed[row][channels, j]    wgmma
//
// Each pair of warps reads every second raw stage. Where their number is odd, the pairs take a stage in turn,
// and a wait for a phase of its barrier could take the phase before the last one for it: the parity is the
// same. The two sync() of a slab, which operands need anyway, keep the pairs within a slab of each other, so
// that whoever waits for a stage's phase comes behind a sync() with the warps that waited for the phase
// before.
//
// Operands lie as [channel block][position][8 channels], so that a tap is 16-byte steps of a descriptor's
// address and costs no instruction but its wgmma. There are two buffers: one is filled while the other is
// multiplied. Staged outputs take their place.
//
// Rows that do not begin on 16 bytes, as tensor copies must, come by Sm90Params::row_classes maps, each of
// the rows r of x (all samples' channels) with the same r modulo row_classes, which begin equally far behind
// such a boundary. A map begins on the boundary, so that a lane finds its position that much later in the
// map's part of a stage. Before a sample's begin the map then has the end of the row before, and behind a
// group's channels other rows: both are cleared.
//
// (H200, ms: a fragment of registers for each tap, as direct.cuh has them but read anew: n32 ci32 co64
// l131072 k5 d3 0.60 in tf32, n64 ci128 co128 l65535 k3 1.78.)
#pragma once

#include "cuda/sm90/direct.cuh"
#include "cuda/sm90/direct_units.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class MultiplyTaps : public DirectStages<S> {
  using Base = DirectStages<S>;

 public:
  using Mode = typename S::Mode;
  using Sums = DirectSums<S>;

  __device__ MultiplyTaps(const Sm90Params& p, const Share& share, const DirectBarriers<S>& barriers,
                          unsigned char* shared, int warp, int lane)
      : Base(p, barriers, shared, warp / 4, lane),
        warpgroup_(warp / 4),
        // Found again: with the kernel's own, registers spill, and n32 ci32 co64 l131072 k5 d3 takes 12%
        // longer.
        warp_(__shfl_sync(0xffffffffu, threadIdx.x / 32 % 4, 0)),
        lane_(threadIdx.x % 32),
        group_row_(share.group * p.cin_group) {
    first_.own += warp_ % 2 * (8 / p.row_classes) * p.raw_pitch;
    stage_ = first_;
    if (warp_ >= 2) this->advance_stage();
    operands_ =
        ptx::shared_address(shared + p.shared_stage) + warpgroup_ * (p.windows ? 1 : 4) * p.staged_bytes;
    const int positions = S::kHalfTile + p.halo;
    block_ = warp_ * positions * 16;
    find_channels(0);
    agreed_ =
        reinterpret_cast<volatile uint32_t*>(shared + p.shared_small) + 3 * kSm90MaxStages + 4 * warpgroup_;
  }

  __device__ void run(Sums& sums, int tile) {
    aim(tile);
    fill();
    sync();
    int accumulate = 0;
    if (p_.resident) slab_ = 0;
#pragma unroll 1
    for (int left = p_.slabs; left > 0; --left) {
      this->wait_weights();
      multiply(sums, accumulate);
      accumulate = 1;
      if (left > 1) fill();
      ptx::wgmma_wait<0>(sums);
      this->next_slab();
      sync();  // operands are made, the others' multiplied
    }
    weights_there_ = p_.resident;
    maker_.end_tile(sums);
  }
  __device__ bool marked() const {
    return maker_.marked();
  }
  __device__ float unscale() const {
    return maker_.unscale();
  }

 protected:
  static constexpr int kN = Base::kN, kSize = sizeof(typename Mode::T);
  static constexpr uint32_t kTapUnits = Base::kTapUnits;
  static constexpr int kAll = 1 << 30;  // channels: stages are zero behind the group's
  // Bytes. Rows 8 apart of wgmma are positions 16 apart, so that a warp has 32 neighbouring ones of both
  // wgmma.
  static constexpr uint32_t kRowsApart = 4 * S::kOwn * 16;

  __device__ void sync() const {
    sync_warpgroup(warpgroup_);
  }

  // At a tile's begin, when all warps have stored the last one's outputs.
  __device__ void aim(int tile) {
    const int n = static_cast<int>(p_.half_tiles.divide(tile));
    const int half = tile - n * static_cast<int>(p_.half_tiles.value);
    first_position_ = static_cast<int>(p_.first_u) - p_.halo + half * p_.half_step;
    const bool classes = p_.row_classes > 1;
    foreign_ = classes && first_position_ < 0;
    channels_left_ = classes ? p_.cin_group - warp_ * 8 : kAll;
    if (classes) find_channels(n * p_.sample_rows + group_row_);
    if constexpr (kIsHeld<Mode>) {
      // The scale, from every fourth position of the first slab.
      RawUnit v;
      load(v, p_.halo + warp_ * S::kWarpPositions + lane_ % S::kWarpPositions);
      const uint32_t most = __reduce_max_sync(0xffffffffu, maker_.largest(v));
      if (lane_ == 0) agreed_[warp_] = most;
      sync();
      maker_.start_tile(max(max(agreed_[0], agreed_[1]), max(agreed_[2], agreed_[3])));
    } else {
      sync();
    }
  }

  // The warp's 8 channels of a slab, which its stage has; 32 positions at a time, loaded one turn ahead.
  __device__ void fill() {
    ptx::barrier_wait(stage_.full, parity_);
    const int last = S::kHalfTile + p_.halo - 1;
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
    ptx::fence_async();
    this->release_stage(stage_.full);
    this->advance_stage();
    this->advance_stage();
    channels_left_ -= 32;
  }
  // Where the warp's channels lie in a stage, whose first one is such a row of x.
  __device__ void find_channels(int row) {
    const int classes = p_.row_classes, shift = __ffs(classes) - 1;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int m = (row + j) & (classes - 1), behind = m * p_.class_turn & (16 / kSize - 1);
      channels_[j] = m * p_.region_bytes + (j >> shift) * p_.raw_pitch + behind * kSize;
    }
  }
  __device__ void load(RawUnit& v, int position) const {
    const uint32_t from = stage_.own + position * kSize;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      v[j] = kSize == 4 ? ptx::load_shared4(from + channels_[j]) : ptx::load_shared2(from + channels_[j]);
    }
    if (!foreign_ && channels_left_ >= 8) return;
    const bool before = foreign_ && first_position_ + position < 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = before || j >= channels_left_ ? 0 : v[j];
  }

  // Low halves of a slab's first descriptors: the distance of channel blocks, and the address.
  struct Low {
    uint32_t x, w;
  };
  __device__ Low lows() const {
    const uint32_t positions = S::kHalfTile + p_.halo, buffer = filled_ * Mode::kParts * 4 * positions;
    return {__shfl_sync(0xffffffffu, (positions << 16) + (operands_ >> 4) + buffer + p_.halo, 0),
            static_cast<uint32_t>(weights_) + slab_ * p_.taps * kTapUnits};
  }

  __device__ void multiply(Sums& sums, int accumulate) const {
    const uint32_t positions = S::kHalfTile + p_.halo;
    auto [x, w] = lows();
#pragma unroll 1
    for (int tap = 0; tap < p_.taps; ++tap) {
      ptx::wgmma_fence();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          ptx::wgmma<kOperand<Mode>, kN>(sums[m], descriptor(kRowsApart, x + half * 2 * positions + m * 8),
                                         descriptor(128, w + half * kTapUnits / 2),
                                         half > 0 ? 1 : accumulate);
        }
      }
      accumulate = 1;
      x -= p_.step;
      w += kTapUnits;
      ptx::wgmma_commit();
    }
  }
  __device__ static uint64_t descriptor(uint32_t along_rows, uint32_t low) {
    return uint64_t{along_rows >> 4} << 32 | low;
  }

  using Base::first_;
  using Base::p_;
  using Base::parity_;
  using Base::slab_;
  using Base::stage_;
  using Base::weights_;
  using Base::weights_there_;

  int warpgroup_, warp_, lane_;
  int group_row_;                        // of x, in its sample
  int first_position_ = 0, filled_ = 0;  // of the half tile's stages; the buffer
  uint32_t operands_, block_;            // shared address; the warp's channel block in a buffer
  uint32_t channels_[8];                 // bytes from the stage's first row to the warp's channels
  volatile uint32_t* agreed_;
  bool foreign_ = false;  // stages begin with what is not the sample's
  // Of the group, from the warp's next ones on: behind them stages have other rows.
  int channels_left_ = kAll;
  UnitMaker<Mode> maker_;
};

#endif

}  // namespace tconv::cuda::sm90
