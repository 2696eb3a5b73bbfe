// The kernel of cuda.simt.dense (dense.hpp has its loop nest). Plain loads and two shared-memory stages: what
// every GPU since sm_70 has.
#pragma once

#include "cuda/simt/dense_repair.cuh"
#include "cuda/simt/dense_store.cuh"

namespace tconv::cuda {

// A block computes Rows x Columns sums; a thread ThreadRows x ThreadColumns of them, in chunks of 16 bytes
// that lie apart, so that a warp (8 threads along rows, 4 along columns) reads shared memory without
// conflicts.
template <class T_, int Rows, int Columns, int ThreadRows, int ThreadColumns, int BlocksPerSm>
struct DenseShape {
  using T = T_;
  using Sum = Accumulator<T>;
  static constexpr int kRows = Rows, kColumns = Columns;
  static constexpr int kThreadRows = ThreadRows, kThreadColumns = ThreadColumns;
  static constexpr int kBlocksPerSm = BlocksPerSm;
  static constexpr int kChunk = 16 / sizeof(Sum);
  static constexpr int kRowThreads = Rows / ThreadRows, kColumnThreads = Columns / ThreadColumns;
  static constexpr int kThreads = kRowThreads * kColumnThreads;
  static constexpr int kSlab = kSlabChannels;
  static constexpr int kPasses = ThreadColumns / kChunk;  // of the epilogue
  static constexpr int kPassColumns = Columns / kPasses;

  struct Stage {
    alignas(16) Sum inputs[kSlab][Rows];
    alignas(16) Sum weights[kSlab][Columns];
  };
  union Shared {
    Stage stages[2];
    alignas(16) Sum staged[kPassColumns][Rows];
  };
  static_assert(sizeof(Shared) <= 48 * 1024);
  static_assert(kRowThreads % 8 == 0 && kColumnThreads % 4 == 0 && Rows % 32 == 0);
};

// Where this block's tile lies.
struct DenseBlock {
  int64_t group, row;
  int split, kind, column;  // kind: of the class

  // b: the block's number.
  __device__ DenseBlock(const DenseParams& p, int tile_rows, int tile_columns, uint32_t b) {
    const uint32_t inner = p.rows_first ? p.row_tiles : p.column_tiles;
    const uint32_t outer = p.rows_first ? p.column_tiles : p.row_tiles;
    const uint32_t i = b % inner;
    b /= inner;
    const uint32_t o = b % outer;
    b /= outer;
    split = static_cast<int>(b % p.splits);
    group = b / p.splits;
    row = static_cast<int64_t>(p.rows_first ? i : o) * tile_rows;
    const uint32_t tile = p.rows_first ? o : i;
    kind = tile < p.classes[0].column_tiles ? 0 : 1;
    column = static_cast<int>(kind == 0 ? tile : tile - p.classes[0].column_tiles) * tile_columns;
  }
};

// The slabs of a block's split; none for the last splits of a shorter class.
struct DenseSlabs {
  int begin, count;
  __device__ DenseSlabs(const DenseParams& p, const DenseBlock& block) {
    const int all = p.classes[block.kind].slabs, each = (all + p.splits - 1) / p.splits;
    begin = block.split * each;
    count = min(each, all - begin);
  }
};

// Inputs of a slab: a thread keeps one row of the tile and reads some of its channels; neighbouring threads
// read neighbouring positions. Any strides, no alignment asked.
template <class Shape>
class DenseInputs {
  using T = typename Shape::T;
  static constexpr int kEvery = Shape::kThreads / Shape::kRows;  // channels that one pass of the block reads
  static constexpr int kLoads = Shape::kSlab / kEvery;
  static_assert(Shape::kThreads % Shape::kRows == 0 && Shape::kSlab % kEvery == 0);

 public:
  __device__ DenseInputs(const DenseParams& p, const DenseBlock& block, const DenseCursor& at) {
    const int64_t m = block.row + row();
    const int64_t n = divide(m, p.phases.positions);
    const int64_t i = p.phases.first + (m - n * p.phases.positions) - at.tap * p.phases.step;
    source_ = static_cast<const T*>(p.x) + n * p.x_step[0] +
              (block.group * p.cin_group + at.channel + first()) * p.x_step[1] + i * p.x_step[2];
    i_ = m < p.rows ? static_cast<int>(i) : kDenseOutside;
  }

  __device__ void advance(const DenseClass& k, bool channels) {
    i_ += channels ? k.next_channels.position : k.next_tap.position;
    source_ += channels ? k.next_channels.input : k.next_tap.input;
  }

  __device__ void fetch(const DenseParams& p, const DenseCursor& at) {
    const int channels =
        static_cast<uint32_t>(i_) < static_cast<uint32_t>(p.l) ? p.cin_group - at.channel - first() : 0;
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      T v = T(0.0f);
      if (load * kEvery < channels) v = __ldg(source_ + load * kEvery * p.x_step[1]);
      values_[load] = v;
    }
  }

  __device__ void put(typename Shape::Stage& stage) const {
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      stage.inputs[first() + load * kEvery][row()] = widen(values_[load]);
    }
  }

 private:
  __device__ static int row() {
    return threadIdx.x % Shape::kRows;
  }
  __device__ static int first() {
    return threadIdx.x / Shape::kRows;
  }

  int i_;  // the input position, outside [0, l) for zeros
  const T* source_;
  T values_[kLoads];
};

// Weights of a slab: rows of packed columns, 16 bytes a load.
template <class Shape>
class DenseWeights {
  using T = typename Shape::T;
  static constexpr int kVector = Vector16<T>::kSize;
  static constexpr int kVectors = Shape::kSlab * Shape::kColumns / kVector;
  static constexpr int kPerRow = Shape::kColumns / kVector;
  static constexpr int kLoads = (kVectors + Shape::kThreads - 1) / Shape::kThreads;
  static constexpr bool kExact = kVectors % Shape::kThreads == 0;

 public:
  __device__ DenseWeights(const DenseParams& p, const DenseClass& k, const DenseBlock& block,
                          const DenseCursor& at)
      : left_(k.pitch - block.column) {
    const int64_t row = (block.group * k.taps + at.tap) * p.cin_group + at.channel;
    source_ = static_cast<const T*>(p.packed) + k.packed + row * k.pitch + block.column;
  }

  __device__ void advance(const DenseClass& k, bool channels) {
    source_ += channels ? k.next_channels.weight : k.next_tap.weight;
  }

  __device__ void fetch(const DenseParams& p, const DenseClass& k, const DenseCursor& at) {
    const int channels = p.cin_group - at.channel;
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int index = threadIdx.x + load * Shape::kThreads;
      const int channel = index / kPerRow, column = index % kPerRow * kVector;
      Vector16<T> v{};
      if ((kExact || index < kVectors) && channel < channels && column < left_) {
        v = load_vector(source_ + static_cast<int64_t>(channel) * k.pitch + column);
      }
      values_[load] = v;
    }
  }

  __device__ void put(typename Shape::Stage& stage) const {
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int index = threadIdx.x + load * Shape::kThreads;
      if (!kExact && index >= kVectors) break;
      auto* to = &stage.weights[index / kPerRow][index % kPerRow * kVector];
#pragma unroll
      for (int i = 0; i < kVector; i += Shape::kChunk) {
        Vector16<typename Shape::Sum> out;
#pragma unroll
        for (int j = 0; j < Shape::kChunk; ++j) out.v[j] = widen(values_[load].v[i + j]);
        *reinterpret_cast<Vector16<typename Shape::Sum>*>(to + i) = out;
      }
    }
  }

 private:
  int left_;  // columns from the tile's first to the end of the packed row
  const T* source_;
  Vector16<T> values_[kLoads];
};

// This thread's place in the tile.
template <class Shape>
struct DenseThread {
  int row, column;  // of its first chunk
  __device__ DenseThread() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr int kRowWarps = Shape::kRowThreads / 8;
    // A 16-byte load serves half a warp at once only where lanes i and i^1, or i and i^2, read the same.
    row = (warp % kRowWarps * 8 + lane / 2 % 8) * Shape::kChunk;
    column = (warp / kRowWarps * 4 + lane % 2 + lane / 16 * 2) * Shape::kChunk;
  }
};

template <int Count, int Apart, class Sum>
__device__ inline void read_chunks(const Sum* from, Sum* to) {
  constexpr int kChunk = 16 / sizeof(Sum);
#pragma unroll
  for (int c = 0; c < Count / kChunk; ++c) {
    const Vector16<Sum> v = *reinterpret_cast<const Vector16<Sum>*>(from + c * Apart);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) to[c * kChunk + i] = v.v[i];
  }
}

template <class Shape>
__device__ inline void multiply_slab(const typename Shape::Stage& stage, const DenseThread<Shape>& thread,
                                     typename Shape::Sum (&sums)[Shape::kThreadRows][Shape::kThreadColumns]) {
  constexpr int kRowsApart = Shape::kRowThreads * Shape::kChunk;
  constexpr int kColumnsApart = Shape::kColumnThreads * Shape::kChunk;
#pragma unroll
  for (int k = 0; k < Shape::kSlab; ++k) {
    typename Shape::Sum a[Shape::kThreadRows], b[Shape::kThreadColumns];
    read_chunks<Shape::kThreadRows, kRowsApart>(&stage.inputs[k][thread.row], a);
    read_chunks<Shape::kThreadColumns, kColumnsApart>(&stage.weights[k][thread.column], b);
#pragma unroll
    for (int i = 0; i < Shape::kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < Shape::kThreadColumns; ++j) sums[i][j] = fma(a[i], b[j], sums[i][j]);
    }
  }
}

// One pass stages a chunk of every thread's columns in shared memory and stores them as rows of y.
template <class Shape>
__device__ inline void stage_pass(
    typename Shape::Shared& shared, const DenseThread<Shape>& thread, int pass,
    const typename Shape::Sum (&sums)[Shape::kThreadRows][Shape::kThreadColumns]) {
  using Sum = typename Shape::Sum;
#pragma unroll
  for (int j = 0; j < Shape::kChunk; ++j) {
    const int column = thread.column + j;
#pragma unroll
    for (int c = 0; c < Shape::kThreadRows / Shape::kChunk; ++c) {
      Vector16<Sum> v;
#pragma unroll
      for (int p = 0; p < Shape::kPasses; ++p) {  // registers are indexed by constants alone
        if (p != pass) continue;
#pragma unroll
        for (int i = 0; i < Shape::kChunk; ++i) v.v[i] = sums[c * Shape::kChunk + i][p * Shape::kChunk + j];
      }
      const int row = thread.row + c * Shape::kRowThreads * Shape::kChunk;
      *reinterpret_cast<Vector16<Sum>*>(&shared.staged[column][staged_row<Sum>(row, column)]) = v;
    }
  }
}

// When all threads have stored the tile's outputs. Its place is found again, from a number that the compiler
// does not know to be the same: kept, it would take registers from the sums.
template <class T>
__device__ inline void repair_tile(const DenseParams& p, int rows, int columns) {
  uint32_t number;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
  const DenseBlock block(p, rows, columns, number);
  const DenseSlabs slabs(p, block);
  const DenseRepair<T> repair(p, p.classes[block.kind], block.group, slabs.begin, slabs.count);
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * columns; i += blockDim.x) {
    const int64_t m = block.row + i % rows;
    const int column = block.column + i / rows;
    if (p.splits > 1) {
      repair.output(static_cast<Accumulator<T>*>(p.output) + block.split * p.split_size, m, column);
    } else {
      repair.output(static_cast<T*>(p.output), m, column);
    }
  }
}

template <class T>
__device__ __noinline__ void repair_tile_apart(const DenseParams& p, int rows, int columns) {
  repair_tile<T>(p, rows, columns);
}

template <class Shape>
__global__ __launch_bounds__(Shape::kThreads,
                             Shape::kBlocksPerSm) void dense_kernel(const __grid_constant__ DenseParams p) {
  using Sum = typename Shape::Sum;
  __shared__ typename Shape::Shared shared;
  const DenseBlock block(p, Shape::kRows, Shape::kColumns, blockIdx.x);
  const DenseThread<Shape> thread;
  const DenseClass& k = p.classes[block.kind];
  const auto [begin, slabs] = DenseSlabs(p, block);

  Sum sums[Shape::kThreadRows][Shape::kThreadColumns] = {};
  DenseCursor at(k, begin);
  DenseInputs<Shape> inputs(p, block, at);
  DenseWeights<Shape> weights(p, k, block, at);
  const auto advance = [&] {
    const bool channels = at.advance(k);
    inputs.advance(k, channels);
    weights.advance(k, channels);
  };
  const auto fetch = [&] {
    inputs.fetch(p, at);
    weights.fetch(p, k, at);
  };
  const auto put = [&](int stage) {
    inputs.put(shared.stages[stage]);
    weights.put(shared.stages[stage]);
  };
  fetch();
  put(0);
  __syncthreads();
  // A slab is multiplied while the next one is fetched. Fetching goes on behind the last slab, where it goes
  // unused: a branch there would let the compiler move the loads down to their stores, and every slab would
  // wait for memory (H200: 30 instead of 35 TFLOP/s). Four stages with a barrier every second slab are no
  // faster.
#pragma unroll 1
  for (int slab = 0; slab < slabs; ++slab) {
    advance();
    fetch();
    asm volatile("" ::: "memory");
    multiply_slab<Shape>(shared.stages[slab % 2], thread, sums);
    put((slab + 1) % 2);
    __syncthreads();
  }

  const bool nan = any_nan(sums);
#pragma unroll 1  // the stores are long code
  for (int pass = 0; pass < Shape::kPasses; ++pass) {
    if (pass > 0) __syncthreads();
    stage_pass<Shape>(shared, thread, pass, sums);
    __syncthreads();
    const DenseStore<Sum, Shape::kRows, Shape::kThreads> store(p, k, block.group, block.row,
                                                               &shared.staged[0][0]);
    const int first = block.column + pass * Shape::kPassColumns;
    if (p.splits > 1) {
      store.columns(static_cast<Sum*>(p.output) + block.split * p.split_size, first, Shape::kPassColumns);
    } else {
      store.columns(static_cast<typename Shape::T*>(p.output), first, Shape::kPassColumns);
    }
  }
  if (__syncthreads_or(nan)) {
    // In the tile of most sums ptxas 13.0 spills in the loop of one type where this is inline, and in that of
    // the others where it is not.
    if constexpr (std::is_same_v<typename Shape::T, float>) {
      repair_tile_apart<typename Shape::T>(p, Shape::kRows, Shape::kColumns);
    } else {
      repair_tile<typename Shape::T>(p, Shape::kRows, Shape::kColumns);
    }
  }
}

}  // namespace tconv::cuda
