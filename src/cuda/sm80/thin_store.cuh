// Outputs of cuda.sm80.thin (thin.hpp): from a warp's sums through shared memory to rows, and those that are
// NaN once more from what exists.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/sm80/thin_source.cuh"

namespace tconv::cuda::sm80::thin {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// A row tile's sums: register e of mma j is row 2*(lane/4) + e/2, column 2*(lane%4) + e%2.
using TileSums = float[kThinColumns / 8][4];

// The position of column c of mma j: without phases a lane, which holds columns 2*(lane%4) and the next, has
// 8 neighbouring positions in each half of a warp's, which it stores at once.
template <bool kPhases>
__device__ __forceinline__ constexpr int column_of(int j, int c) {
  return kPhases ? j * 8 + c : j / 4 * 32 + c / 2 * 8 + j % 4 * 2 + c % 2;
}

// What rows of outputs are in shared memory, and two outputs there.
template <class T>
using Staged = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
template <class T>
using StagedPair = std::conditional_t<sizeof(T) == 2, uint32_t, uint2>;

template <class T>
__device__ __forceinline__ StagedPair<T> pair_of(float first, float second) {
  if constexpr (sizeof(T) == 2) {
    return canonical_pair<T>(rounded_pair<T>(first, second));
  } else {
    return {__float_as_uint(canonical(first)), __float_as_uint(canonical(second))};
  }
}

// Sixteen bytes of neighbouring outputs of a row: from mmas s[0], s[1] and so on, registers e and e + 1.
template <class T>
__device__ __forceinline__ uint4 vector_of(const Epilogue<T>& epilogue, const float (*s)[4], int e) {
  const auto pair = [&](int j) { return pair_of<T>(epilogue.value(s[j][e]), epilogue.value(s[j][e + 1])); };
  if constexpr (sizeof(T) == 2) {
    return {pair(0), pair(1), pair(2), pair(3)};
  } else {
    const uint2 first = pair(0), second = pair(1);
    return {first.x, first.y, second.x, second.y};
  }
}

// Rows of outputs in shared memory, [channel][position, phase]; staged: their first of 64 positions.
template <class T, bool kPhases>
__device__ __forceinline__ void put(const ThinParams& p, const TileSums& sums, const float* biases,
                                    Staged<T>* staged) {
  const int lane = threadIdx.x % 32, v = lane / 4 * 2;
  const float2 bias = *reinterpret_cast<const float2*>(biases + v);
  const Epilogue<T> low{bias.x}, high{bias.y};
  if constexpr (!kPhases) {
    constexpr int kMmas = 8 / sizeof(T);  // whose outputs of a row are sixteen bytes
#pragma unroll
    for (int j = 0; j < kThinColumns / 8; j += kMmas) {
      Staged<T>* const to = staged + v * p.staged_pitch + column_of<false>(j, lane % 4 * 2);
      *reinterpret_cast<uint4*>(to) = vector_of<T>(low, sums + j, 0);
      *reinterpret_cast<uint4*>(to + p.staged_pitch) = vector_of<T>(high, sums + j, 2);
    }
  } else {
    const Row row(p, 0, v);
    if (row.phase >= p.out_stride) return;
    Staged<T>* const to = staged + row.channel * p.staged_pitch + row.phase;
    const bool words = p.out_stride % 2 == 0, both = row.phase + 1 < p.out_stride;
#pragma unroll
    for (int j = 0; j < kThinColumns / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        Staged<T>* const at = to + (column_of<true>(j, lane % 4 * 2) + i) * p.out_stride;
        const StagedPair<T> pair = pair_of<T>(low.value(sums[j][i]), high.value(sums[j][2 + i]));
        if (words) {
          *reinterpret_cast<StagedPair<T>*>(at) = pair;
        } else if constexpr (sizeof(T) == 2) {
          at[0] = static_cast<uint16_t>(pair);
          if (both) at[1] = static_cast<uint16_t>(pair >> 16);
        } else {
          at[0] = pair.x;
          if (both) at[1] = pair.y;
        }
      }
    }
  }
}

// A row's elements [begin, end) of a warp's, from shared memory to `to`, where element 0 belongs: whole
// words, and perhaps an element at each end.
template <class T>
__device__ __noinline__ void take_part(const Staged<T>* from, T* to, int begin, int end) {
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(T) == 4) {
    for (int e = begin + lane; e < end; e += 32) to[e] = __uint_as_float(from[e]);
    return;
  }
  const int odd = static_cast<int>(reinterpret_cast<uintptr_t>(to) / 2 % 2);
  auto* const out = reinterpret_cast<uint16_t*>(to);
  const int first = begin + ((begin ^ odd) & 1);
  if (lane == 0 && first > begin && begin < end) out[begin] = from[begin];
  for (int e = first + 2 * lane; e < end; e += 64) {
    if (e + 1 == end) {
      out[e] = from[e];
    } else {
      *reinterpret_cast<uint32_t*>(out + e) = from[e] | static_cast<uint32_t>(from[e + 1]) << 16;
    }
  }
}

// Rows that begin on vectors, some loads before their stores. kLanes take a row, other lanes other rows;
// elements: of a row. Where a whole warp takes a row and rows are few, the loads are of one row.
template <class Vector, int kLanes, class T>
__device__ __forceinline__ void take_vectors(const Staged<T>* from, int pitch, T* to, int64_t length,
                                             int rows, int elements) {
  constexpr int kAhead = 4, kOf = sizeof(Vector) / sizeof(T), kRows = 32 / kLanes;
  const int lane = threadIdx.x % 32, row = lane / kLanes, at = lane % kLanes * kOf;
  const bool few = kRows == 1 && rows < kAhead;
  const int row_step = few ? 0 : kRows, along = few ? kLanes * kOf : 0;
  from += row * pitch + at;
  auto* out = reinterpret_cast<Staged<T>*>(to) + row * length + at;
  const auto copy = [&](int r, int e) {
    Vector held[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (r + a * row_step < rows && at + e + a * along < elements) {
        held[a] = *reinterpret_cast<const Vector*>(from + (r - row + a * row_step) * pitch + e + a * along);
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (r + a * row_step < rows && at + e + a * along < elements) {
        *reinterpret_cast<Vector*>(out + (r - row + a * row_step) * length + e + a * along) = held[a];
      }
    }
  };
  for (int r = row; r < rows; r += few ? 1 : kAhead * kRows) {
    for (int e = 0; e < elements; e += few ? kAhead * along : kLanes * kOf) copy(r, e);
  }
}

// Rows of float32 that begin anywhere, two at once.
template <class T>
__device__ __forceinline__ void take_words(const uint32_t* from, int pitch, T* to, int64_t length, int rows,
                                           int elements) {
  const int lane = threadIdx.x % 32;
  from += lane;
  auto* out = reinterpret_cast<uint32_t*>(to) + lane;
#pragma unroll 1
  for (int r = 0; r < rows; r += 2, from += 2 * pitch, out += 2 * length) {
    const bool both = r + 1 < rows;
#pragma unroll 2
    for (int e = 0; e < elements; e += kThinColumns) {
      uint32_t held[2][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        held[0][i] = from[e + i * 32];
        if (both) held[1][i] = from[pitch + e + i * 32];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        out[e + i * 32] = held[0][i];
        if (both) out[length + e + i * 32] = held[1][i];
      }
    }
  }
}

// Rows of which every second, or all, begin between words (kOdd: the first, the second): whole words, and an
// element at each end.
template <bool kOdd0, bool kOdd1, class T>
__device__ __forceinline__ void take_odd(const uint16_t* from, int pitch, T* to, int64_t length, int rows,
                                         int elements) {
  const int lane = threadIdx.x % 32, edge = lane == 30 ? 0 : elements - 1;
  const auto row = [&]<bool kOdd>(const uint16_t* staged, uint16_t* out) {
    for (int w = 2 * lane; w < elements; w += 64) {
      if constexpr (!kOdd) {
        *reinterpret_cast<uint32_t*>(out + w) = *reinterpret_cast<const uint32_t*>(staged + w);
      } else {
        const auto* const pair = reinterpret_cast<const uint32_t*>(staged + w);
        const uint32_t word = __byte_perm(pair[0], pair[1], 0x5432);
        if (w + 2 < elements) *reinterpret_cast<uint32_t*>(out + w + 1) = word;
      }
    }
    if constexpr (kOdd) {
      const uint16_t last = staged[edge];
      if (lane >= 30) out[edge] = last;
    }
  };
  auto* out = reinterpret_cast<uint16_t*>(to);
#pragma unroll 2
  for (int r = 0; r + 1 < rows; r += 2, from += 2 * pitch, out += 2 * length) {
    row.template operator()<kOdd0>(from, out);
    row.template operator()<kOdd1>(from + pitch, out + length);
  }
  if (rows % 2 == 1) row.template operator()<kOdd0>(from, out);
}

// A warp's part of a tile: sample, first position, and which rows.
struct WarpTile {
  int n, m, row_tile, group;

  // The output row of a channel, where element 0 of the warp's belongs, and which of its elements exist.
  template <class T>
  __device__ __forceinline__ T* row(const ThinParams& p, int channel, int& begin, int& end) const {
    const int64_t first = int64_t{m} * p.out_stride - p.out_lead;
    begin = static_cast<int>(max(-first, int64_t{0}));
    end = static_cast<int>(min(int64_t{p.warp_columns} * p.out_stride, p.output_length - first));
    const int64_t of = (int64_t{n} * p.groups + group) * p.output_channels + channel;
    return static_cast<T*>(p.output) + of * p.output_length + first;
  }
};

template <class T, bool kPhases>
__device__ __forceinline__ void take_rows(const ThinParams& p, const WarpTile& of, const Staged<T>* staged) {
  constexpr int kRowLanes = 8 * sizeof(T) / 2;  // 64 elements by 16 bytes
  const Row row(p, of.row_tile, 0);
  const int rows =
      min(kPhases ? kThinRowTile >> p.phase_bits : kThinRowTile, p.output_channels - row.channel);
  const int elements = kPhases ? p.warp_columns * p.out_stride : p.warp_columns, pitch = p.staged_pitch;
  int begin, end;
  T* to = of.row<T>(p, row.channel, begin, end);
  if (begin > 0 || end < elements) {
    for (int r = 0; r < rows; ++r, to += p.output_length, staged += pitch) take_part(staged, to, begin, end);
    return;
  }
  const auto boundary = reinterpret_cast<uintptr_t>(to) | static_cast<uintptr_t>(p.output_length * sizeof(T));
  if (boundary % 16 == 0) {
    take_vectors<uint4, kPhases ? 32 : kRowLanes>(staged, pitch, to, p.output_length, rows, elements);
  } else if (boundary % 8 == 0) {
    take_vectors<uint2, kPhases ? 32 : 2 * kRowLanes>(staged, pitch, to, p.output_length, rows, elements);
  } else if constexpr (sizeof(T) == 4) {
    take_words(staged, pitch, to, p.output_length, rows, elements);
  } else if (boundary % 4 == 0) {
    take_vectors<uint32_t, 32>(staged, pitch, to, p.output_length, rows, elements);
  } else if (p.output_length % 2 == 0) {
    take_odd<true, true>(staged, pitch, to, p.output_length, rows, elements);
  } else if (reinterpret_cast<uintptr_t>(to) % 4 != 0) {
    take_odd<true, false>(staged, pitch, to, p.output_length, rows, elements);
  } else {
    take_odd<false, true>(staged, pitch, to, p.output_length, rows, elements);
  }
}

// What an arithmetic multiplies.
template <class A>
__device__ __forceinline__ float factor(typename A::T v) {
  if constexpr (std::is_same_v<A, Tf32>) return __uint_as_float(to_tf32(__float_as_uint(v)));
  return widen(v);
}

// Whether sums may include a product that does not exist: they are NaN. Of float32, whose operands may become
// infinite as they are rounded, also if they are infinite.
template <class A>
__device__ __forceinline__ bool suspicious(float v) {
  return sizeof(typename A::T) == 4 ? !is_finite(v) : v != v;
}
template <class A>
__device__ __forceinline__ bool any_suspicious(const TileSums& sums) {
  if constexpr (sizeof(typename A::T) == 2) return any_nan(sums);
  float none = 0;
#pragma unroll
  for (int j = 0; j < kThinColumns / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) none = fmaf(sums[j][e], 0.0f, none);
  }
  return none != none;
}

// The sum of one output from what exists. It ends at its first NaN, so that data that are NaN throughout cost
// one term for each output.
template <class A>
__device__ inline float exact_sum(const ThinParams& p, const WarpTile& of, const Row& row, int m) {
  using T = typename A::T;
  const T* source = static_cast<const T*>(p.source) + of.n * p.source_step[0] +
                    int64_t{of.group} * p.channels * p.source_step[1];
  const T* weight = static_cast<const T*>(p.weight) + of.group * p.weight_group + row.channel * p.weight_row;
  const int64_t first = int64_t{m} * p.in_stride - p.lead;
  float sum = 0;
  for (int c = 0; c < p.channels && sum == sum; ++c) {
    for (int j = 0; j < p.taps && sum == sum; ++j) {
      const int64_t q = first + int64_t{j} * p.dilation;
      const int k = p.tap_first + p.tap_step * j + row.phase;
      if (q < 0 || q >= p.source_length || k < 0 || k >= p.k_count) continue;
      sum = fmaf(factor<A>(__ldg(source + c * p.source_step[1] + q)),
                 factor<A>(__ldg(weight + c * p.weight_channel + k)), sum);
    }
  }
  return sum;
}

// Stores those outputs of a warp's row tile again whose sums are suspicious, as what was stored says.
template <class A>
__device__ __noinline__ void repair(const ThinParams& p, const WarpTile& of, const float* biases) {
  using T = typename A::T;
  for (int i = threadIdx.x % 32; i < kThinRowTile * p.warp_columns; i += 32) {
    const int v = i / p.warp_columns, m = i - v * p.warp_columns;
    const Row row(p, of.row_tile, v);
    if (!row.there(p)) continue;
    int begin, end;
    T* const to = of.row<T>(p, row.channel, begin, end);
    const int at = m * p.out_stride + row.phase;
    if (at < begin || at >= end) continue;
    if (!suspicious<A>(widen(to[at]))) continue;
    to[at] = narrow<T>(Epilogue<T>{biases[v]}.value(exact_sum<A>(p, of, row, of.m + m)));
  }
}

#endif

}  // namespace tconv::cuda::sm80::thin
