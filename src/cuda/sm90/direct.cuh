// The other kernel of cuda.sm90.dense: x goes from raw stages straight to wgmma's registers. dense.hpp says
// when. Positions are the rows of wgmma, packed weights its columns:
//
//   for each group, pair of row blocks, and, as they are free, half tile of 128 positions:   one warpgroup
//     for each 16 channels (of 16-bit types and split operands 32):                           one raw stage
//       1 lane has boxes of x copied, 128 + halo positions, zeros where there is no x
//       4 channels of 4 + taps - 1 positions a lane go to registers, rounded or split once
//       for each tap j:  sums[u][row] += x[u - j][channels] * packed[row][channels, j]        wgmma
//     y[n, cout, stride*u + a*dilation - padding] = sums[u][cout, a] + bias[cout]
//
// Split operands (ieee float32, shape.cuh): half tiles of 64 positions, 2 a lane, one row block, three sets
// of sums.
//
// What binds (H200, ncu, n64 ci128 co128 l65536 k3 in tf32): nothing is full (DRAM 70%, L2's tags and ways in
// 66 to 68%, shared memory 62%); a warp issues an instruction in 6 cycles, half of them to store. A stage's
// rows are no longer than they must be: L2 is asked for 64 bytes at a time, and 16 bytes more a row, so that
// warps read without conflicts, took 4% of the time; channels in another order, which reads so as well, 0.6%
// less. In ieee: a scheduler issues in 53% of the cycles, the tensor cores work in half of them; an element
// of x is split by 5 instructions, twice, as its positions are shared by 3 taps but not by lanes.
//
// A lane has 4 neighbouring positions u, as rows 8 apart of two wgmma: the operands of neighbouring taps are
// then the same registers in another order. For other taps, and rows of x that do not begin on 16 bytes,
// warpgroups make operands in shared memory: direct_taps.cuh. Where all weights fit in shared memory, the two
// or three warpgroups of a block go from half tile to half tile apart from each other, and one multiplies
// while another stores; else they take neighbouring ones together and share a ring of slabs.
#pragma once

#include "cuda/sm90/direct_stages.cuh"
#include "cuda/sm90/fragment.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A warpgroup's sums of half tiles.
template <class S>
class MultiplyDirect : public DirectStages<S> {
  using Base = DirectStages<S>;

 public:
  using Mode = typename S::Mode;
  using Sums = DirectSums<S>;

  __device__ MultiplyDirect(const Sm90Params& p, const Share&, const DirectBarriers<S>& barriers,
                            unsigned char* shared, int warp, int lane)
      : Base(p, barriers, shared, warp / 4, lane) {
    first_.own += lane % 4 * 2 * p.raw_pitch + (p.halo + warp % 4 * S::kWarpPositions + lane / 4 * S::kOwn) *
                                                   static_cast<int>(sizeof(typename Mode::T));
    stage_ = first_;
  }

  // Fragments take turns: one is made while the other is multiplied, of numbers that were asked for before
  // that.
  __device__ void run(Sums& sums, int /*tile*/) {
    Raw<typename Mode::T, S::kGroup, S::kOwn> raw;
    Fragment<S::kGroup> even, odd;
    load(raw);
    reader_.start_tile(raw);
    reader_.convert(even, raw);
    int accumulate = 0, before = -1;
    if (p_.resident) slab_ = 0;
#pragma unroll 1
    for (int left = p_.slabs;;) {
      this->wait_weights();
      const uint64_t b = weights_ + slab_ * p_.taps * kTapUnits;
      uint32_t done = stage_.full;
      if constexpr (S::kChannels == 16) {
        next_stage(raw);
      } else {
        raw.load(stage_.own + 16 * p_.raw_pitch, p_.raw_pitch);
      }
      multiply(even, sums, b, accumulate);
      if (S::kChannels == 16) this->release_stage(done);
      ptx::wgmma_wait<1>();
      this->release_weights(before);
      reader_.convert(odd, raw);
      done = stage_.full;
      const bool more = --left > 0;
      if (more) next_stage(raw);
      multiply(odd, sums, b + kTapUnits / 2, 1);
      this->release_stage(done);
      this->advance_weights(before);
      accumulate = 1;
      if (!more) break;
      ptx::wgmma_wait<1>();
      reader_.convert(even, raw);
    }
    this->advance_stage();
    ptx::wgmma_wait<0>(sums);
    this->release_weights(before);
    weights_there_ = p_.resident;
    reader_.end_tile(sums);
  }
  __device__ bool marked() const {
    return reader_.marked();
  }
  __device__ float unscale() const {
    return reader_.unscale();
  }

 protected:
  static constexpr int kN = Base::kN;
  static constexpr uint32_t kTapUnits = Base::kTapUnits;

  __device__ void load(Raw<typename Mode::T, S::kGroup, S::kOwn>& raw) const {
    raw.load(stage_.own, p_.raw_pitch);
  }
  // The reads of the one before are over when the wgmma that have its numbers in registers are issued.
  __device__ void next_stage(Raw<typename Mode::T, S::kGroup, S::kOwn>& raw) {
    this->advance_stage();
    ptx::barrier_wait(stage_.full, parity_);
    load(raw);
  }

  __device__ void multiply(const Fragment<S::kGroup>& f, Sums& sums, uint64_t b, int accumulate) const {
    ptx::wgmma_fence();
#pragma unroll
    for (int tap = 0; tap < S::kGroup; ++tap) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        ptx::wgmma<kOperand<Mode>, kN>(sums[m], f.rows[2 * m + S::kGroup - 1 - tap], b + tap * kTapUnits,
                                       tap > 0 ? 1 : accumulate);
      }
    }
    ptx::wgmma_commit();
  }

  using Base::first_;
  using Base::p_;
  using Base::parity_;
  using Base::slab_;
  using Base::stage_;
  using Base::weights_;
  using Base::weights_there_;
  Reader<Mode, S::kGroup> reader_;
};

#endif

}  // namespace tconv::cuda::sm90
