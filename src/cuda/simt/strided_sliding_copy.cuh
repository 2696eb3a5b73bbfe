// What strided_sliding.cuh copies: windows of dy and weights into shared memory, outputs out of it. Elements
// of 16 bits move in pairs, since the instructions for single ones would bind.
#pragma once

#include "cuda/simt/strided_parts.cuh"
#include "cuda/simt/strided_sliding.hpp"

namespace tconv::cuda::simt {

// Where element u of a window's row lies.
__device__ __forceinline__ int sliding_place(int u) {
  return u + (u >> 5) * 4;  // sliding_pitch's, in 32 bits
}

// Elements [begin, behind) of a run, cut into words: a word of 16-bit elements has two.
template <class T>
struct WordsOf {
  static constexpr int kOf = sizeof(T) == 2 ? 2 : 1;
  int first, count, end;  // the first element of a whole word, words, the element behind them

  // from: where element 0 lies.
  __device__ __forceinline__ WordsOf(const T* from, int begin, int behind) {
    const int odd = kOf == 1 ? 0 : static_cast<int>(reinterpret_cast<uintptr_t>(from + begin) / 2 % 2);
    first = min(begin + odd, behind);
    count = (behind - first) / kOf;
    end = first + count * kOf;
  }
};

// A word's elements as numbers.
template <class T>
__device__ __forceinline__ float element_of_word(uint32_t word, int i) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(word);
  } else {
    return widen(of_bits<T>(static_cast<unsigned short>(i == 0 ? word : word >> 16)));
  }
}

// The part of a window that lies in dy: elements [begin, behind).
struct SlidingPart {
  int first;  // place in dy of the window's first element
  int begin, behind;

  // at: the first position.
  template <int S>
  __device__ __forceinline__ static SlidingPart of(const StridedSlidingParams& p, int at) {
    const int first = at * S - static_cast<int>(p.padding);
    const int begin = min(max(-first, 0), p.window);
    return {first, begin, max(min(p.window, static_cast<int>(p.lout) - first), begin)};
  }
  __device__ __forceinline__ bool has(int e) const { return e >= begin && e < behind; }
};

// A channel's window of a unit of kLanes threads on its way to shared memory: load() can be far ahead of
// store().
template <class T, int S, int kLanes>
class SlidingWindow {
 public:
  // channel: of dy; at: the first position.
  __device__ __forceinline__ void load(const StridedSlidingParams& p, const T* channel, int at) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const SlidingPart part = SlidingPart::of<S>(p, at);
    const T* const from = channel + part.first;
    const WordsOf<T> words(from, part.begin, part.behind);
    odd_ = words.first > part.begin;
    const auto* const word = reinterpret_cast<const uint32_t*>(from + words.first) + lane;
    const bool inside = part.behind - part.begin == p.window;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const bool has = (inside && i < kSure) || lane + i * kLanes < words.count;
      values_[i] = has ? __ldg(word + i * kLanes) : 0;
    }
    if constexpr (kOf > 1) {  // the halves of words at both ends
      edge_ = 0;
      if (lane == 0 && odd_) edge_ = load_bits(from + part.begin);
      if (lane == kLanes - 1 && words.end < part.behind) edge_ = load_bits(from + words.end);
    }
  }

  // The same position again. With zeros around what lies in dy.
  __device__ __forceinline__ void store(const StridedSlidingParams& p, float* window, int at) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const SlidingPart part = SlidingPart::of<S>(p, at);
    const int first = part.begin + (odd_ ? 1 : 0), count = (part.behind - first) / kOf;
    const bool inside = part.behind - part.begin == p.window;
    constexpr int kStep = kOf * kLanes / 32 * 36;  // from a word to the thread's next one
    float* to[kOf];
#pragma unroll
    for (int j = 0; j < kOf; ++j) to[j] = window + sliding_place(first + kOf * lane + j);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (!(inside && i < kSure) && lane + i * kLanes >= count) break;
#pragma unroll
      for (int j = 0; j < kOf; ++j) to[j][kStep * i] = element_of_word<T>(values_[i], j);
    }
    if constexpr (kOf > 1) {
      const int end = first + count * kOf;
      const float edge = element_of_word<T>(edge_, 0);
      if (lane == 0 && odd_) window[sliding_place(part.begin)] = edge;
      if (lane == kLanes - 1 && end < part.behind) window[sliding_place(end)] = edge;
    }
    if (inside) return;
    for (int e = lane; e < part.begin; e += kLanes) window[sliding_place(e)] = 0;
    for (int e = part.behind + lane; e < p.window; e += kLanes) window[sliding_place(e)] = 0;
  }

 private:
  static constexpr int kOf = WordsOf<T>::kOf;
  // Words of a thread, and those of them that a window that lies in dy has for every thread.
  static constexpr int kLoads = sliding_loads(sizeof(T), S), kSure = kSlidingPositions * S / kOf - 1;

  bool odd_;
  uint32_t values_[kLoads];
  uint32_t edge_;
};

// Weights of `rows` rows and `count` channels as [tile][channel][k], with room for whole fours of taps, and
// the rows' biases. from: the first row's of the first channel; ci: that row. Returns whether the lane's
// weights are finite. All rows at once: a single one has few weights.
template <class T, int R>
__device__ __forceinline__ bool stage_rows(const StridedSlidingParams& p, StridedWeights<float, R>* weights,
                                           float* biases, const T* from, int64_t ci, int rows, int count) {
  constexpr int kLoads = 4;
  const int lane = threadIdx.x, k = static_cast<int>(p.k);
  const int run = count * k, all = rows * run, padded = (rows + R - 1) / R * R * run;
  bool finite = true;
  for (int first = lane; first < padded; first += kLoads * kStridedThreads) {
    Bits<T> bits[kLoads];
    int to[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int e = first + i * kStridedThreads, r = e / run, term = e - r * run;
      const int c = term / k, tap = term - c * k;
      const int64_t at = r * p.row_step + c * p.channel_step + tap * p.tap_step;
      bits[i] = e < all ? load_bits(from + at) : Bits<T>(0);
      to[i] = ((r / R * count + c) * p.tap_pitch + tap) * R + r % R;
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (first + i * kStridedThreads >= padded) break;
      const float value = widen(of_bits<T>(bits[i]));
      finite &= value - value == 0.f;
      reinterpret_cast<float*>(weights)[to[i]] = value;
    }
  }
  for (int r = lane; r < rows; r += kStridedThreads) biases[r] = load_bias_to_add<T>(p.bias, ci + r);
  return finite;
}

// Rows of a piece's outputs on their way to memory: a thread puts its positions into shared memory, then
// takes neighbouring ones in turn with the others of its warp.
template <class T, int kLanes>
class SlidingOutputs {
 public:
  static constexpr int kP = kSlidingPositions;

  // sums: of the thread's positions of a piece that begins at `begin`; to: the row in shared memory; bias: to
  // be added; ci: its channel.
  __device__ __forceinline__ static void put(const StridedSlidingParams& p, const float (&sums)[kP],
                                             float bias, int64_t ci, int begin, T* to) {
    const int at = static_cast<int>(threadIdx.x) % kLanes * kP, first = begin + at;
    float values[kP];
#pragma unroll
    for (int i = 0; i < kP; ++i) values[i] = Epilogue<T>{bias}.value(sums[i]);
    if (first < p.reached_begin || first + kP > p.reached_end) {
      const float alone = epilogue_of<T>(p.bias, ci).value_alone();
#pragma unroll
      for (int i = 0; i < kP; ++i) {
        if (first + i < p.reached_begin || first + i >= p.reached_end) values[i] = alone;
      }
    }
    uint32_t words[kP * sizeof(T) / 4];
#pragma unroll
    for (int i = 0; i < static_cast<int>(kP * sizeof(T) / 4); ++i) {
      if constexpr (sizeof(T) == 4) {
        words[i] = __float_as_uint(narrow<T>(values[i]));
      } else {
        words[i] = canonical_pair<T>(rounded_pair<T>(values[2 * i], values[2 * i + 1]));
      }
    }
    constexpr int kOfVector = 16 / sizeof(T);
#pragma unroll
    for (int i = 0; i < kP / kOfVector; ++i) {
      *reinterpret_cast<uint4*>(to + place(at + kOfVector * i)) =
          make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    }
  }

  // from: a row in shared memory; to: the row of dx, from the piece's first position on; there: how many of
  // the piece's positions exist.
  __device__ __forceinline__ static void take(const T* from, T* to, int there) {
    const int begin = static_cast<int>(threadIdx.x) % kLanes / 32 * 32 * kP;
    if (begin + 32 * kP <= there) {
      take<true>(from, to, begin, begin + 32 * kP);
    } else if (begin < there) {
      take<false>(from, to, begin, there);
    }
  }

 private:
  template <bool kWhole>
  __device__ __forceinline__ static void take(const T* from, T* to, int begin, int end) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (sizeof(T) == 4) {
      const int first = begin + lane;
      constexpr int kStep = 36;  // place(i + 32) - place(i)
#pragma unroll
      for (int i = 0; i < kP; ++i) {
        if (kWhole || first + 32 * i < end) to[first + 32 * i] = from[place(first) + kStep * i];
      }
    } else {
      const WordsOf<T> words(to, begin, end);
      const bool odd = words.first > begin;
      const auto* const pairs = reinterpret_cast<const uint32_t*>(from + begin) + lane;
      auto* const out = reinterpret_cast<uint32_t*>(to + words.first) + lane;
      const auto copy = [&](int i, auto&& word) {
        if ((kWhole && i + 1 < kP / 2) || lane + 32 * i < words.count) out[32 * i] = word(pairs + 32 * i);
      };
      if (odd) {
        // Of two pairs, the second of one and the first of the next.
#pragma unroll
        for (int i = 0; i < kP / 2; ++i) {
          copy(i, [](const uint32_t* pair) { return __byte_perm(pair[0], pair[1], 0x5432); });
        }
        if (lane == 0) to[begin] = from[begin];
      } else {
#pragma unroll
        for (int i = 0; i < kP / 2; ++i) copy(i, [](const uint32_t* pair) { return *pair; });
      }
      if (lane == 31 && words.end < end) to[words.end] = from[words.end];
    }
  }

  // Of elements of 16 bits vectors of neighbouring threads lie side by side.
  __device__ __forceinline__ static int place(int i) {
    return sizeof(T) == 4 ? sliding_place(i) : i;
  }
};

}  // namespace tconv::cuda::simt
