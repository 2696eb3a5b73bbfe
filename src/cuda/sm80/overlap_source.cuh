// The copies of cuda.sm80.overlap (overlap.hpp): which tile a block has, and how weights and x come into its
// stages.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/sm80/overlap_exact.cuh"

namespace tconv::cuda::sm80::overlap {

template <class Arithmetic, int kTileIndex>
struct Shape {
  using A = Arithmetic;
  using T = typename A::T;
  static constexpr OverlapTile kTile = kOverlapTiles[kTileIndex];
  static constexpr int kRows = kTile.rows, kColumns = kTile.columns, kStages = kTile.stages;
  static constexpr int kRowStep = kTile.row_step(true), kColumnStep = kTile.column_step(false);
  static constexpr int kSumFloats = kTile.sum_floats();
  static constexpr int kWarpRows = kColumns < 64 ? 16 : 32, kRowWarps = kRows / kWarpRows;
  static constexpr int kWarpColumns = kColumns / (kOverlapThreads / 32 / kRowWarps);
  static constexpr int kMi = kWarpRows / 16, kNi = kWarpColumns / 8;
  // Channels of a stage, and stages of a slab.
  static constexpr int kSlab = kTile.stage_bytes / sizeof(T), kSteps = kSlab / A::kDepth;
  static constexpr int kStagesOfSlab = kOverlapSlabBytes / kTile.stage_bytes;
  static constexpr int kWeightPitch = kRows + kOverlapPad, kXPitch = kColumns + kOverlapPad;
  static constexpr int kWeightBytes = kSlab * kWeightPitch * sizeof(T);
  static constexpr int kStageBytes = kWeightBytes + kSlab * kXPitch * static_cast<int>(sizeof(T));
  static_assert(kRows / kWarpRows * (kColumns / kWarpColumns) * 32 == kOverlapThreads);
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Which tile a block has, and which part of its depth.
struct Place {
  int rank, group, first_cout, couts, first_phase, column_tile;
  int first_slab, end_slab;  // in stages

  __device__ Place(const OverlapParams& p, int stages_of_slab) {
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
    first_slab = static_cast<int>(int64_t{p.slabs} * rank / p.splits) * stages_of_slab;
    end_slab = static_cast<int>(int64_t{p.slabs} * (rank + 1) / p.splits) * stages_of_slab;
  }
};

// What the thread of one operand computes once: a stage's rows in pieces of kCopy bytes, where each thread
// has the same elements of every kRowsAtOnce-th row. Slabs come one after another.
template <class T, int kRowElements, int kPieceElements>
struct PieceMap {
  static constexpr int kPieces = kRowElements / kPieceElements;
  static constexpr int kRowsAtOnce = kOverlapThreads / kPieces;
  int row, element;

  __device__ PieceMap()
      : row(threadIdx.x / kPieces),
        element((threadIdx.x - threadIdx.x / kPieces * kPieces) * kPieceElements) {}
};

// Copies weights to a stage, past the registers; single elements pass through them. A thread that has few of
// those stores them after the slab is multiplied: who calls load_next() calls store() then.
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
    if constexpr (kHolds) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) held_[i] = i * kRows < left_ ? __ldg(from + i * kRows * row_step_) : T{};
    } else if constexpr (kCopy == OverlapCopy::element) {
      pass(to);
    } else if (kRows <= S::kSlab || map_.row < S::kSlab) {
#pragma unroll
      for (int row = 0; row < S::kSlab; row += kRows) {
        // A copy of no bytes has an address too; the beginning of the operand is a valid one.
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
  __device__ __forceinline__ void store(T* stage) const {
    if constexpr (kHolds) {
      T* const to = stage + map_.row * S::kWeightPitch + map_.element;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) to[i * kRows * S::kWeightPitch] = held_[i];
    }
  }

 private:
  static constexpr int kElements = static_cast<int>(kCopy) / static_cast<int>(sizeof(T));
  using Map = PieceMap<T, S::kRows, (kElements > 0 ? kElements : 1)>;
  static constexpr int kRows = Map::kRowsAtOnce;
  static constexpr int kOwn = S::kSlab / kRows;  // single elements of a thread
  static constexpr bool kHolds = kCopy == OverlapCopy::element && kOwn <= (S::kColumns <= 32 ? 32 : 8);

  __device__ __forceinline__ void pass(T* to) const {
    constexpr int kAhead = kOwn < 16 ? kOwn : 16;
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
  int bytes_, left_;  // rows left, counted from the thread's first row of the next slab
  T held_[kHolds ? kOwn : 1];
};

// Where a column is in channel 0 of the group; null: nowhere.
template <class T>
__device__ inline const T* column_source(const OverlapParams& p, const Place& place, int column) {
  if (column < 0 || column >= p.columns) return nullptr;
  const int n = static_cast<int>(p.length.divide(column));
  return static_cast<const T*>(p.x) + n * p.x_step[0] + int64_t{place.group} * p.cin_group * p.x_step[1] +
         column - int64_t{n} * p.l;
}

// x passes through registers: rows may begin anywhere, and small copies past the registers are slow. A thread
// stores what it has loaded after the slab is multiplied, rounded for the tensor cores unless it is split.
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
      constexpr int kAtOnce = kHoldsPairs ? kWords : 8;
#pragma unroll kAtOnce
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

  __device__ bool too_small() const {
    return small_.too_small();
  }

 private:
  // A thread takes two neighbouring single elements, so that it can store them as one word.
  static constexpr bool kPairs = kCopy == OverlapCopy::element;
  static constexpr int kPieceWords = kCopy == OverlapCopy::vector ? 4 : 1;
  using Map = PieceMap<T, S::kColumns, kPieceWords * 4 / static_cast<int>(sizeof(T))>;
  static constexpr int kRows = Map::kRowsAtOnce;
  static constexpr int kWords = (S::kSlab + kRows - 1) / kRows * kPieceWords;
  // Where warps hold few sums. More would not fit the registers.
  static constexpr int kMostPairs = S::kMi * S::kNi * MmaAccumulator::kRegisters <= 32 ? 16 : 8;
  static constexpr bool kHoldsPairs = kPairs && kWords <= kMostPairs;
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
    if constexpr (A::kParts == 2) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) small_.see(held_[i]);
    } else if constexpr (sizeof(T) == 4) {
      round_held();
    }
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
  Smallest small_;
};

#endif

}  // namespace tconv::cuda::sm80::overlap
