// The sums of split operands (shape.cuh, HeldSplit), of registers as in direct.cuh or of shared memory as in
// direct_taps.cuh: half tiles of 64 positions, three sets of sums.
//
//   for each slab of 32 channels, up to 4 taps:
//     for each tap j:  fresh[u][row] += hi[u - j*step] * hi[row]
//                      small[u][row] += hi[u - j*step] * lo[row] + lo[u - j*step] * hi[row]           3 wgmma
//     sums += fresh, in float32 registers
//   sums += small / 2^11
//
// The tensor core truncates where it accumulates: fresh has at most 8 steps of 16 channels, small is 2^-11 of
// it. (H200, ms, from registers and from shared memory: n64 ci128 co128 l65536 k3 2.63 and 3.39, n16 ci32
// co64 l131072 k3 s2 d2 0.475 and 0.553, n16 ci128 co64 l55104 k4 s2 0.54 and 0.71; of 4 taps registers
// spill: n4 ci512 co256 l32768 k4 1.08 and 0.98.)
#pragma once

#include "cuda/sm90/direct_taps.cuh"
#include "cuda/sm90/split_fragment.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// One of the three sets of sums.
template <int N>
using SplitSums = float[N / 2];

template <int Count>
__device__ inline void set_zero(float (&sums)[Count]) {
#pragma unroll
  for (float& v : sums) v = 0;
}
// In float32.
template <int Count>
__device__ inline void add(float (&sums)[Count], const float (&more)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) sums[i] += more[i];
}
template <int Count>
__device__ inline void add_small(float (&sums)[Count], const float (&small)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) sums[i] = fmaf(small[i], HeldSplit::kDown, sums[i]);
}

// One fragment and three sets of sums fill the registers: while a warpgroup makes a fragment, the others
// multiply.
template <class S>
class MultiplySplit : public MultiplyDirect<S> {
  using Base = MultiplyDirect<S>;

 public:
  using Mode = typename S::Mode;
  using Sums = DirectSums<S>;
  using Base::Base;

  __device__ void run(Sums& sums, int /*tile*/) {
    Raw<typename Mode::T, S::kGroup, S::kOwn> raw;
    SplitFragment<S::kGroup> f;
    SetOfSums fresh, small;
    auto& total = sums[0];
    this->load(raw);
    reader_.start_tile(raw);
    set_zero(total);
    if (p_.resident) slab_ = 0;
    int accumulate = 0;
#pragma unroll 1
    for (int left = p_.slabs; left > 0; --left) {
      this->wait_weights();
      const uint64_t b = weights_ + slab_ * p_.taps * kTapUnits;
      reader_.convert(f, raw);
      raw.load(stage_.own + 16 * p_.raw_pitch, p_.raw_pitch);
      multiply(f, fresh, small, b, 0, accumulate);
      ptx::wgmma_wait<0>(fresh, small);
      reader_.convert(f, raw);
      const uint32_t done = stage_.full;
      if (left > 1) this->next_stage(raw);
      multiply(f, fresh, small, b + kPartUnits / 2, 1, 1);
      this->release_stage(done);
      ptx::wgmma_wait<0>(fresh, small);
      accumulate = 1;
      add(total, fresh);
      this->next_slab();
    }
    this->advance_stage();
    weights_there_ = p_.resident;
    add_small(total, small);
    reader_.end_tile(sums);
  }

 private:
  static constexpr int kN = Base::kN;
  static constexpr uint32_t kPartUnits = Base::kPartUnits, kTapUnits = Base::kTapUnits;
  using SetOfSums = SplitSums<kN>;

  __device__ void multiply(const SplitFragment<S::kGroup>& f, SetOfSums& fresh, SetOfSums& small, uint64_t b,
                           int accumulate_fresh, int accumulate_small) const {
    constexpr ptx::Operand kType = kOperand<Mode>;
    ptx::wgmma_fence();
#pragma unroll
    for (int tap = 0; tap < S::kGroup; ++tap) {
      const uint64_t hi = b + tap * kTapUnits, lo = hi + kPartUnits;
      const auto &x_hi = f.hi[S::kGroup - 1 - tap], &x_lo = f.lo[S::kGroup - 1 - tap];
      ptx::wgmma<kType, kN>(fresh, x_hi, hi, tap > 0 ? 1 : accumulate_fresh);
      ptx::wgmma<kType, kN>(small, x_hi, lo, tap > 0 ? 1 : accumulate_small);
      ptx::wgmma<kType, kN>(small, x_lo, hi, 1);
    }
    ptx::wgmma_commit();
  }

  using Base::p_;
  using Base::reader_;
  using Base::slab_;
  using Base::stage_;
  using Base::weights_;
  using Base::weights_there_;
};

template <class S>
class MultiplySplitTaps : public MultiplyTaps<S> {
  using Base = MultiplyTaps<S>;

 public:
  using Mode = typename S::Mode;
  using Sums = DirectSums<S>;
  using Base::Base;

  __device__ void run(Sums& sums, int tile) {
    SetOfSums fresh, small;
    auto& total = sums[0];
    set_zero(total);
    this->aim(tile);
    this->fill();
    this->sync();
    int accumulate = 0;
    if (p_.resident) slab_ = 0;
#pragma unroll 1
    for (int left = p_.slabs; left > 0; --left) {
      this->wait_weights();
      Low low = this->lows();
#pragma unroll 1
      for (int taps = p_.taps; taps > 0; taps -= kTaps) {
        multiply(fresh, small, low, min(taps, kTaps), accumulate);
        accumulate = 1;
        if (taps <= kTaps && left > 1) this->fill();
        ptx::wgmma_wait<0>(fresh, small);
        add(total, fresh);
      }
      this->next_slab();
      this->sync();  // operands are made, the others' multiplied
    }
    weights_there_ = p_.resident;
    add_small(total, small);
    maker_.end_tile(sums);
  }

 private:
  using Low = typename Base::Low;
  static constexpr int kN = Base::kN, kTaps = 4;
  static constexpr uint32_t kPartUnits = Base::kPartUnits, kTapUnits = Base::kTapUnits;
  using SetOfSums = SplitSums<kN>;

  __device__ void multiply(SetOfSums& fresh, SetOfSums& small, Low& low, int taps, int accumulate) const {
    constexpr ptx::Operand kType = kOperand<Mode>;
    const uint32_t positions = S::kHalfTile + p_.halo;
    int more = 0;
#pragma unroll 1
    for (int tap = 0; tap < taps; ++tap) {
      ptx::wgmma_fence();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t x = low.x + half * 2 * positions, w = low.w + half * (kPartUnits / 2);
        const uint64_t x_hi = Base::descriptor(Base::kRowsApart, x),
                       x_lo = Base::descriptor(Base::kRowsApart, x + 4 * positions);
        const uint64_t w_hi = Base::descriptor(128, w), w_lo = Base::descriptor(128, w + kPartUnits);
        ptx::wgmma<kType, kN>(fresh, x_hi, w_hi, half > 0 ? 1 : more);
        ptx::wgmma<kType, kN>(small, x_hi, w_lo, half > 0 ? 1 : accumulate);
        ptx::wgmma<kType, kN>(small, x_lo, w_hi, 1);
      }
      accumulate = more = 1;
      low.x -= p_.step;
      low.w += kTapUnits;
      ptx::wgmma_commit();
    }
  }

  using Base::maker_;
  using Base::p_;
  using Base::slab_;
  using Base::weights_there_;
};

template <class S>
using DirectProducts =
    std::conditional_t<S::kGroup == 0, std::conditional_t<S::kSplit, MultiplySplitTaps<S>, MultiplyTaps<S>>,
                       std::conditional_t<S::kSplit, MultiplySplit<S>, MultiplyDirect<S>>>;

#endif

}  // namespace tconv::cuda::sm90
