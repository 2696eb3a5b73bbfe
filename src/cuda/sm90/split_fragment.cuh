// x from a raw stage to the registers that wgmma reads, in two parts of float16 (shape.cuh, HeldSplit).
#pragma once

#include "cuda/sm90/fragment.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// As Fragment, of a lane's 2 positions: one wgmma's rows a tap.
template <int Taps>
struct SplitFragment {
  uint32_t hi[Taps][4], lo[Taps][4];
};

template <int Taps>
class Reader<HeldSplit, Taps> : public HeldReader<Taps, 2> {
  using Base = HeldReader<Taps, 2>;

 public:
  __device__ void convert(SplitFragment<Taps>& f, const Raw<float, Taps, 2>& raw) {
    float v[4][Base::kPositions];
    this->scale(v, raw);
    uint32_t least = Base::kNothing;
#pragma unroll
    for (int i = 0; i < Taps; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int c = e / 2 * 2, at = i + e % 2;
        f.hi[i][e] = Base::pair(v[c][at], v[c + 1][at]);
        if (e % 2 == 1 && i < Taps - 1) continue;  // the next tap has it too
        least = Base::least(f.hi[i][e], least);
        rest(f.hi[i][e], v[c][at], v[c + 1][at]);
      }
    }
    if (Base::suspect(least)) this->review(raw);
#pragma unroll
    for (int i = 0; i < Taps; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int c = e / 2 * 2, at = i + e % 2;
        f.lo[i][e] = Base::pair(v[c][at], v[c + 1][at]);
      }
    }
  }

 private:
  // What the pair leaves of both numbers, exactly.
  __device__ static void rest(uint32_t pair, float& low, float& high) {
    const float2 taken = __half22float2(*reinterpret_cast<const __half2*>(&pair));
    low = (low - taken.x) * HeldSplit::kUp;
    high = (high - taken.y) * HeldSplit::kUp;
  }
};

#endif

}  // namespace tconv::cuda::sm90
