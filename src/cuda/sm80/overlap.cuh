// The kernel of overlap.hpp.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/sm80/overlap.hpp"
#include "cuda/sm80/overlap_store.cuh"

namespace tconv::cuda::sm80::overlap {

template <class Arithmetic, int kTileIndex>
struct Shape {
  using A = Arithmetic;
  using T = typename A::T;
  static constexpr int kRows = kOverlapRows, kColumns = kOverlapColumns[kTileIndex];
  static constexpr int kStages = kOverlapStages[kTileIndex];
  static constexpr int kWarpColumns = kColumns < 64 ? kColumns : kColumns / 2;
  static constexpr int kWarpRows = kColumns < 64 ? 16 : 32;
  static constexpr int kMi = kWarpRows / 16, kNi = kWarpColumns / 8;
  static constexpr int kSlab = kOverlapSlabBytes / sizeof(T), kSteps = kSlab / A::kDepth;
  static constexpr int kWeightPitch = kRows + kOverlapPad, kXPitch = kColumns + kOverlapPad;
  static constexpr int kWeightBytes = kSlab * kWeightPitch * sizeof(T);
  static constexpr int kStageBytes = kWeightBytes + kSlab * kXPitch * static_cast<int>(sizeof(T));
  static_assert(kRows / kWarpRows * (kColumns / kWarpColumns) * 32 == kOverlapThreads);
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Which tile a block has, and which part of its depth.
struct Place {
  int rank, group, first_cout, couts, first_phase, column_tile;
  int first_slab, end_slab;

  __device__ explicit Place(const OverlapParams& p) {
    const int tile = blockIdx.x / p.splits;
    rank = blockIdx.x - tile * p.splits;
    const int row_tiles = p.cout_tiles * p.phase_tiles * p.groups;
    const int other = p.rows_first ? row_tiles : p.column_tiles;
    const int high = tile / other, low = tile - high * other;
    column_tile = p.rows_first ? high : low;
    int row = p.rows_first ? low : high;
    const int phase_tile = row % p.phase_tiles;
    row /= p.phase_tiles;
    group = row / p.cout_tiles;
    first_cout = (row - group * p.cout_tiles) * p.couts;
    couts = min(p.couts, p.cout_group - first_cout);
    first_phase = phase_tile * p.chunk;
    first_slab = static_cast<int>(int64_t{p.slabs} * rank / p.splits);
    end_slab = static_cast<int>(int64_t{p.slabs} * (rank + 1) / p.splits);
  }
};

// What one operand's thread does not read twice: a stage's rows in pieces of kCopy bytes, each thread the
// same elements of every kRowsAtOnce-th row. Slabs come one after the other.
template <class T, int kRowElements, int kPieceElements>
struct PieceMap {
  static constexpr int kPieces = kRowElements / kPieceElements;
  static constexpr int kRowsAtOnce = kOverlapThreads / kPieces;
  int row, element;

  __device__ PieceMap()
      : row(threadIdx.x / kPieces),
        element((threadIdx.x - threadIdx.x / kPieces * kPieces) * kPieceElements) {}
};

// Weights, to a stage past the registers; single elements through them.
template <class S, OverlapCopy kCopy>
class WeightCopies {
 public:
  using T = typename S::T;

  __device__ WeightCopies(const OverlapParams& p, const Place& place)
      : operand_(static_cast<const T*>(p.weight)), row_step_(p.weight_step) {
    int64_t source = int64_t{place.group} * p.cin_group * p.weight_step + int64_t{place.first_cout} * p.k;
    const int row = map_.element;
    int there;
    if (p.whole) {
      source += row;
      there = place.couts * p.k - row;
    } else {
      const int cout = row / p.cout_rows, tap = (row - cout * p.cout_rows) / p.tap_rows;
      const int phase = place.first_phase + row - cout * p.cout_rows - tap * p.tap_rows;
      const int k = phase + tap * p.tap_stride;
      source += int64_t{cout} * p.k + k;
      there = cout < place.couts ? min(p.phases - phase, p.k - k) : 0;
    }
    bytes_ = max(0, min(there, kElements)) * static_cast<int>(sizeof(T));
    left_ = bytes_ > 0 ? p.cin_group - place.first_slab * S::kSlab - map_.row : 0;
    from_ = operand_ + source + int64_t{place.first_slab * S::kSlab + map_.row} * row_step_;
  }

  __device__ __forceinline__ void load_next(T* stage) {
    const T* from = from_;
    T* to = stage + map_.row * S::kWeightPitch + map_.element;
    if constexpr (kCopy == OverlapCopy::element) {
      pass(to);
    } else {
#pragma unroll
      for (int row = 0; row < S::kSlab; row += kRows) {
        // An address is taken from a copy of no bytes as well: the operand's begin is a good one.
        const bool reads = row < left_;
        if constexpr (kCopy == OverlapCopy::vector) {
          ptx::copy_async16(ptx::shared_address(to), reads ? from : operand_, reads ? bytes_ : 0);
        } else {
          ptx::copy_async4(ptx::shared_address(to), reads ? from : operand_, reads ? bytes_ : 0);
        }
        from += kRows * row_step_;
        to += kRows * S::kWeightPitch;
      }
    }
    from_ += S::kSlab * row_step_;
    left_ -= S::kSlab;
  }

 private:
  static constexpr int kElements = static_cast<int>(kCopy) / static_cast<int>(sizeof(T));
  using Map = PieceMap<T, S::kRows, (kElements > 0 ? kElements : 1)>;
  static constexpr int kRows = Map::kRowsAtOnce;

  __device__ __forceinline__ void pass(T* to) const {
    constexpr int kAhead = 16;
#pragma unroll 1
    for (int row = 0; row < S::kSlab; row += kAhead * kRows) {
      T held[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int at = row + i * kRows;
        held[i] = at < left_ ? __ldg(from_ + at * row_step_) : T{};
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) to[(row + i * kRows) * S::kWeightPitch] = held[i];
    }
  }

  Map map_;
  const T* operand_;
  const T* from_;
  int64_t row_step_;
  int bytes_, left_;  // rows, counted from the thread's first of the next slab
};

// Where a column lies in channel 0 of the group; null: nowhere.
template <class T>
__device__ inline const T* column_source(const OverlapParams& p, const Place& place, int column) {
  if (column < 0 || column >= p.columns) return nullptr;
  const int n = static_cast<int>(p.length.divide(column));
  return static_cast<const T*>(p.x) + n * p.x_step[0] + int64_t{place.group} * p.cin_group * p.x_step[1] +
         column - int64_t{n} * p.l;
}

// x through registers: rows may begin anywhere, and small copies past registers are slow. What a thread loads
// while a slab is multiplied it stores behind it, rounded for the tensor cores.
template <class S, OverlapCopy kCopy>
class XCopies {
 public:
  using A = typename S::A;
  using T = typename S::T;

  __device__ XCopies(const OverlapParams& p, const Place& place) : row_step_(p.x_step[1]) {
    const int column = place.column_tile * p.own - p.halo + map_.element;
    const T* source = column_source<T>(p, place, column);
    const T* second = kPairs ? column_source<T>(p, place, column + 1) : nullptr;
    there_ = source != nullptr, second_there_ = second != nullptr;
    left_ = there_ || second_there_ ? p.cin_group - place.first_slab * S::kSlab - map_.row : 0;
    const int64_t row = int64_t{place.first_slab * S::kSlab + map_.row} * row_step_;
    from_ = (there_ ? source : static_cast<const T*>(p.x)) + row;
    second_ = (second_there_ ? second : static_cast<const T*>(p.x)) + row;
  }

  __device__ __forceinline__ void load_next() {
    if constexpr (!kPairs) {
      load_words();
    } else if constexpr (kHoldsPairs) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) load_pair(i, held_[2 * i], held_[2 * i + 1]);
      advance();
    }
  }
  __device__ __forceinline__ void store(T* stage) {
    T* to = stage + map_.row * S::kXPitch + map_.element;
    if constexpr (!kPairs) {
      store_words(to);
    } else {
#pragma unroll 8
      for (int i = 0; i < kWords; ++i, to += kRows * S::kXPitch) {
        uint32_t low, high;
        if constexpr (kHoldsPairs) {
          low = held_[2 * i], high = held_[2 * i + 1];
        } else {
          load_pair(i, low, high);
        }
        *reinterpret_cast<uint32_t*>(to) = low | high << 16;
      }
      if constexpr (!kHoldsPairs) advance();
    }
  }

 private:
  // Of single elements a thread takes two neighbours, to store them as one word.
  static constexpr bool kPairs = kCopy == OverlapCopy::element;
  static constexpr int kPieceWords = kCopy == OverlapCopy::vector ? 4 : 1;
  using Map = PieceMap<T, S::kColumns, kPieceWords * 4 / static_cast<int>(sizeof(T))>;
  static constexpr int kRows = Map::kRowsAtOnce;
  static constexpr int kWords = (S::kSlab + kRows - 1) / kRows * kPieceWords;
  static constexpr bool kHoldsPairs = kPairs && kWords <= 8;  // more would not fit the registers
  static constexpr int kHeld = kPairs ? (kHoldsPairs ? 2 * kWords : 1) : kWords;

  __device__ __forceinline__ void advance() {
    from_ += S::kSlab * row_step_;
    second_ += S::kSlab * row_step_;
    left_ -= S::kSlab;
  }
  __device__ __forceinline__ void load_words() {
    const T* from = from_;
#pragma unroll
    for (int i = 0; i < kWords; i += kPieceWords, from += kRows * row_step_) {
      const int row = i / kPieceWords * kRows;
      const bool reads = row < left_ && (kRows <= S::kSlab || map_.row < S::kSlab);
      if constexpr (kPieceWords == 4) {
        const uint4 v = reads ? __ldg(reinterpret_cast<const uint4*>(from)) : uint4{};
        held_[i] = v.x, held_[i + 1] = v.y, held_[i + 2] = v.z, held_[i + 3] = v.w;
      } else {
        held_[i] = reads ? __ldg(reinterpret_cast<const uint32_t*>(from)) : 0u;
      }
    }
    advance();
  }
  __device__ __forceinline__ void store_words(T* to) {
    if constexpr (sizeof(T) == 4) round_held();
    if (kRows > S::kSlab && map_.row >= S::kSlab) return;
#pragma unroll
    for (int i = 0; i < kWords; i += kPieceWords, to += kRows * S::kXPitch) {
      if constexpr (kPieceWords == 4) {
        *reinterpret_cast<uint4*>(to) = {held_[i], held_[i + 1], held_[i + 2], held_[i + 3]};
      } else {
        *reinterpret_cast<uint32_t*>(to) = held_[i];
      }
    }
  }
  __device__ __forceinline__ void round_held() {
    constexpr int kEach = 4;
#pragma unroll
    for (int i = 0; i < kWords; i += kEach) {
      uint32_t v[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) v[e] = i + e < kWords ? held_[i + e] : 0u;
      uint4 rounded[1];
      A::operand(v, rounded);
      const uint32_t r[kEach] = {rounded[0].x, rounded[0].y, rounded[0].z, rounded[0].w};
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        if (i + e < kWords) held_[i + e] = r[e];
      }
    }
  }
  __device__ __forceinline__ void load_pair(int i, uint32_t& low, uint32_t& high) const {
    const bool reads = i * kRows < left_;
    const int64_t at = i * kRows * row_step_;
    low = reads && there_ ? __ldg(reinterpret_cast<const uint16_t*>(from_ + at)) : 0u;
    high = reads && second_there_ ? __ldg(reinterpret_cast<const uint16_t*>(second_ + at)) : 0u;
  }

  Map map_;
  const T* from_;
  const T* second_;
  int64_t row_step_;
  bool there_, second_there_;
  int left_;
  uint32_t held_[kHeld] = {};
};

// Fragments of a stage: weights (kMi tiles of 16 rows) and x (kNi tiles of 8 columns), depth step by step.
template <class S>
class Fragments {
 public:
  using A = typename S::A;
  using T = typename S::T;

  __device__ Fragments(int first_row, int first_column) {
    const int lane = threadIdx.x % 32;
    if constexpr (sizeof(T) == 2) {
      row_ = (lane / 16 * 8 + lane % 8) * S::kWeightPitch + first_row + lane / 8 % 2 * 8;
      column_ = (lane / 8 % 2 * 8 + lane % 8) * S::kXPitch + first_column + lane / 16 * 8;
    } else {
      row_ = lane % 4 * S::kWeightPitch + first_row + lane / 4;
      column_ = lane % 4 * S::kXPitch + first_column + lane / 4;
    }
  }

  // As they lie in the stage; rounded later, so that the next step's are under way.
  __device__ __forceinline__ void raw_weights(const T* stage, int step, uint4 (&a)[S::kMi]) const {
    const T* at = stage + row_ + step * A::kDepth * S::kWeightPitch;
#pragma unroll
    for (int i = 0; i < S::kMi; ++i, at += 16) {
      if constexpr (sizeof(T) == 2) {
        a[i] = ptx::load_matrices_transposed(ptx::shared_address(at));
      } else {
        constexpr int kHalf = 4 * S::kWeightPitch;
        a[i] = {bits(at[0]), bits(at[8]), bits(at[kHalf]), bits(at[kHalf + 8])};
      }
    }
  }
  __device__ static __forceinline__ void round(const uint4 (&raw)[S::kMi], uint4 (&a)[S::kMi][1]) {
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
      if constexpr (sizeof(T) == 2) {
        a[i][0] = raw[i];
      } else {
        const uint32_t v[4] = {raw[i].x, raw[i].y, raw[i].z, raw[i].w};
        A::operand(v, a[i]);
      }
    }
  }

  __device__ __forceinline__ void columns(const T* stage, int step, uint2 (&b)[S::kNi][1]) const {
    const T* at = stage + column_ + step * A::kDepth * S::kXPitch;
#pragma unroll
    for (int j = 0; j < S::kNi; j += 2, at += 16) {
      if constexpr (sizeof(T) == 2) {
        const uint4 both = ptx::load_matrices_transposed(ptx::shared_address(at));
        b[j][0] = {both.x, both.y};
        b[j + 1][0] = {both.z, both.w};
      } else {
        constexpr int kHalf = 4 * S::kXPitch;
        b[j][0] = {bits(at[0]), bits(at[kHalf])};
        b[j + 1][0] = {bits(at[8]), bits(at[kHalf + 8])};
      }
    }
  }

 private:
  __device__ static uint32_t bits(float v) {
    return __float_as_uint(v);
  }
  int row_, column_;
};

// The block's slabs, one after the other.
template <class S, OverlapCopy kWeightCopy, OverlapCopy kXCopy>
__device__ __forceinline__ void multiply_slabs(const OverlapParams& p, const Place& place,
                                               unsigned char* shared, int first_row, int first_column,
                                               float (&sums)[S::kMi][S::kNi][MmaAccumulator::kRegisters]) {
  using A = typename S::A;
  using T = typename S::T;
  WeightCopies<S, kWeightCopy> weights(p, place);
  XCopies<S, kXCopy> columns(p, place);
  constexpr int kX = S::kWeightBytes / sizeof(T);
  const auto stage_at = [&](int slot) { return reinterpret_cast<T*>(shared + slot * S::kStageBytes); };
  const int slabs = place.end_slab - place.first_slab;
#pragma unroll
  for (int i = 0; i < S::kStages - 1; ++i) {
    if (i < slabs) weights.load_next(stage_at(i));
    ptx::copy_async_commit();
  }
  columns.load_next();
  columns.store(stage_at(0) + kX);
  const Fragments<S> fragments(first_row, first_column);
  int slot = 0;
#pragma unroll 1
  for (int slab = 0; slab < slabs; ++slab) {
    ptx::copy_async_wait<S::kStages - 2>();
    __syncthreads();  // the stage is whole, and the one before it is read
    const int free = slot == 0 ? S::kStages - 1 : slot - 1, next = slot == S::kStages - 1 ? 0 : slot + 1;
    if (slab + S::kStages - 1 < slabs) weights.load_next(stage_at(free));
    ptx::copy_async_commit();
    if (slab + 1 < slabs) columns.load_next();
    const T* stage = stage_at(slot);
    uint4 raw[2][S::kMi];
    fragments.raw_weights(stage, 0, raw[0]);
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) {
      uint4 a[S::kMi][1];
      uint2 b[S::kNi][1];
      if (step + 1 < S::kSteps) fragments.raw_weights(stage, step + 1, raw[(step + 1) % 2]);
      fragments.columns(stage + kX, step, b);
      fragments.round(raw[step % 2], a);
#pragma unroll
      for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
        for (int j = 0; j < S::kNi; ++j) multiply<A>(sums[i][j], a[i], b[j]);
      }
    }
    if (slab + 1 < slabs) columns.store(stage_at(next) + kX);
    slot = next;
  }
}

template <class S, OverlapCopy kWeightCopy, class... Rest>
__device__ __forceinline__ void multiply_by_x(const OverlapParams& p, Rest&&... rest) {
  if (p.x_copy == OverlapCopy::vector) {
    multiply_slabs<S, kWeightCopy, OverlapCopy::vector>(p, rest...);
  } else if (sizeof(typename S::T) == 4 || p.x_copy == OverlapCopy::word) {
    multiply_slabs<S, kWeightCopy, OverlapCopy::word>(p, rest...);
  } else {
    multiply_slabs<S, kWeightCopy, sizeof(typename S::T) == 2 ? OverlapCopy::element : OverlapCopy::word>(
        p, rest...);
  }
}

#endif

template <class S>
__global__ void __launch_bounds__(kOverlapThreads, 2)
    overlap_kernel(const __grid_constant__ OverlapParams p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using A = typename S::A;
  using T = typename S::T;
  extern __shared__ __align__(128) unsigned char shared[];
  const Place place(p);
  const int warp = threadIdx.x / 32, row_warps = S::kRows / S::kWarpRows;
  const int first_row = warp % row_warps * S::kWarpRows, first_column = warp / row_warps * S::kWarpColumns;
  float sums[S::kMi][S::kNi][MmaAccumulator::kRegisters] = {};
  if (p.weight_copy == OverlapCopy::vector) {
    multiply_by_x<S, OverlapCopy::vector>(p, place, shared, first_row, first_column, sums);
  } else if (sizeof(T) == 4 || p.weight_copy == OverlapCopy::word) {
    multiply_by_x<S, OverlapCopy::word>(p, place, shared, first_row, first_column, sums);
  } else {
    multiply_by_x<S, sizeof(T) == 2 ? OverlapCopy::element : OverlapCopy::word>(p, place, shared, first_row,
                                                                                first_column, sums);
  }
  ptx::copy_async_wait<0>();
  __syncthreads();
  stage_products<S>(reinterpret_cast<float*>(shared), sums, first_row, first_column);
  store_outputs<T>(p, place.rank, place, reinterpret_cast<const float*>(shared));
#endif
}

template <class A>
OverlapFunctions functions_of() {
  return {{overlap_kernel<Shape<A, 0>>, overlap_kernel<Shape<A, 1>>, overlap_kernel<Shape<A, 2>>,
           overlap_kernel<Shape<A, 3>>}};
}

}  // namespace tconv::cuda::sm80::overlap
