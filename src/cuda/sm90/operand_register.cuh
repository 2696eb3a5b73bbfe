// RegisterOperand: x from a raw stage to the registers that wgmma reads, a lane's positions of 16 channels.
#pragma once

#include "cuda/device/prologue.cuh"
#include "cuda/sm90/fp16_scale.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The operands of wgmma for Taps neighbouring taps: for rows i and i + 1 of the lane's positions, counted
// from Taps - 1 before its own on, channels lane%4*2 and the next of both, and those 8 further. Most are
// there twice: wgmma needs four consecutive registers, and computing a number again costs as much as moving
// it.
template <int Taps>
struct Fragment {
  uint32_t rows[Taps + 2][4];
};

// What a lane reads of a raw stage: of channels lane%4*2, the next, and both 8 further, the same Own
// positions and the Taps - 1 before them, as they are stored.
template <class T, int Taps, int Own>
struct Raw {
  static constexpr int kPerWord = 4 / sizeof(T);
  static constexpr int kEarlier = Taps == 1 ? 0 : Taps <= 3 ? 2 : 4;  // positions
  static constexpr int kWords = (kEarlier + Own) / kPerWord;
  uint32_t words[4][kWords];

  // own: the shared address of the lane's first position in its first channel; pitch: bytes from a channel to
  // the next.
  __device__ void load(uint32_t own, uint32_t pitch) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const uint32_t at = own + (c / 2 * 8 + c % 2) * pitch;
      uint32_t* to = words[c];
      constexpr int kBytes = kEarlier * sizeof(T);
      if constexpr (kBytes == 16 && Own == 4) to = put(to, ptx::load_shared16(at - 16));
      if constexpr (kBytes == 16 && Own == 2) to = put(to, ptx::load_shared8(at - 16));
      if constexpr (kBytes == 8 || (kBytes == 16 && Own == 2)) to = put(to, ptx::load_shared8(at - 8));
      if constexpr (kBytes == 4) *to++ = ptx::load_shared4(at - 4);
      if constexpr (sizeof(T) * Own == 16) {
        put(to, ptx::load_shared16(at));
      } else {
        put(to, ptx::load_shared8(at));
      }
    }
  }

  // What the prologue makes of them; channel: the lane's first one.
  template <class P>
  __device__ void prepare(const P& prologue, int channel) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        words[c][i] = word_behind<T>(prologue, words[c][i], channel + c / 2 * 8 + c % 2);
      }
    }
  }

 private:
  __device__ static uint32_t* put(uint32_t* to, const uint4& v) {
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    return to + 4;
  }
  __device__ static uint32_t* put(uint32_t* to, const uint2& v) {
    to[0] = v.x, to[1] = v.y;
    return to + 2;
  }
};

// 16-bit operands are used as they are.
template <class Mode, int Taps>
class Reader : public PlainTile {
 public:
  using T = typename Mode::T;
  static_assert(sizeof(T) == 2);

  __device__ void start_tile(const Raw<T, Taps, 4>&) {}
  __device__ void convert(Fragment<Taps>& f, const Raw<T, Taps, 4>& raw) {
#pragma unroll
    for (int i = 0; i < Taps + 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int at = i + e % 2 + raw.kEarlier - Taps + 1;
        f.rows[i][e] = pair(raw.words[e / 2 * 2][at / 2], raw.words[e / 2 * 2 + 1][at / 2], at % 2);
      }
    }
  }

 private:
  // Volatile, so that it is not computed once and moved.
  __device__ static uint32_t pair(uint32_t a, uint32_t b, int odd) {
    uint32_t v;
    if (odd != 0) {
      asm volatile("prmt.b32 %0, %1, %2, 0x7632;\n" : "=r"(v) : "r"(a), "r"(b));
    } else {
      asm volatile("prmt.b32 %0, %1, %2, 0x5410;\n" : "=r"(v) : "r"(a), "r"(b));
    }
    return v;
  }
};

// For float32 in float16. Each warp has its own scale for a tile, because positions are the rows of its sums.
template <int Taps, int Own>
class ScaledReader : public ScaledTile {
 public:
  using T = float;

  // The scale, from the warp's positions in the tile's first channels.
  __device__ void start_tile(const Raw<T, Taps, Own>& raw) {
    uint32_t most = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int i = raw.kEarlier; i < raw.kWords; ++i) most = max(most, finite_magnitude(raw.words[c][i]));
    }
    start(__reduce_max_sync(0xffffffffu, most));
  }

 protected:
  static constexpr int kPositions = Taps + Own - 1;
  static constexpr int kFirst = Raw<T, Taps, Own>::kEarlier - Taps + 1;  // of them

  __device__ void scale(float (&v)[4][kPositions], const Raw<T, Taps, Own>& raw) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int i = 0; i < kPositions; ++i) v[c][i] = __uint_as_float(raw.words[c][i + kFirst]) * scale_.up();
    }
  }
  // Volatile, so that it is not computed once and moved.
  __device__ static uint32_t pair(float low, float high) {
    uint32_t v;
    asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(v) : "f"(high), "f"(low));
    return v;
  }
  __device__ void review(const Raw<T, Taps, Own>& raw) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int i = kFirst; i < raw.kWords; ++i) ScaledTile::review(raw.words[c][i]);
    }
  }
};

template <int Taps>
class Reader<Fp16Scaled, Taps> : public ScaledReader<Taps, 4> {
  using Base = ScaledReader<Taps, 4>;

 public:
  __device__ void convert(Fragment<Taps>& f, const Raw<float, Taps, 4>& raw) {
    float scaled[4][Base::kPositions];
    this->scale(scaled, raw);
    uint32_t least = Base::kLeastOfNone;
#pragma unroll
    for (int i = 0; i < Taps + 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int c = e / 2 * 2, at = i + e % 2;
        f.rows[i][e] = Base::pair(scaled[c][at], scaled[c + 1][at]);
        if (e % 2 == 0 || i == Taps + 1) least = Base::least(f.rows[i][e], least);
      }
    }
    if (Base::suspect(least)) this->review(raw);
  }
};

// Like Fragment, for a lane's 2 positions: the rows of one wgmma for each tap.
template <int Taps>
struct SplitFragment {
  uint32_t hi[Taps][4], lo[Taps][4];
};

template <int Taps>
class Reader<Fp16Split, Taps> : public ScaledReader<Taps, 2> {
  using Base = ScaledReader<Taps, 2>;

 public:
  __device__ void convert(SplitFragment<Taps>& f, const Raw<float, Taps, 2>& raw) {
    float v[4][Base::kPositions];
    this->scale(v, raw);
    uint32_t least = Base::kLeastOfNone;
#pragma unroll
    for (int i = 0; i < Taps; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int c = e / 2 * 2, at = i + e % 2;
        f.hi[i][e] = Base::pair(v[c][at], v[c + 1][at]);
        if (e % 2 == 1 && i < Taps - 1) continue;  // the next tap has it as well
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
  // What the pair leaves of both numbers; exact.
  __device__ static void rest(uint32_t pair, float& low, float& high) {
    const float2 taken = __half22float2(*reinterpret_cast<const __half2*>(&pair));
    low = (low - taken.x) * Fp16Split::kUp;
    high = (high - taken.y) * Fp16Split::kUp;
  }
};

#endif

}  // namespace tconv::cuda::sm90
