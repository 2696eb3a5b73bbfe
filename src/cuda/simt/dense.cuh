// The kernel of cuda.simt.dense (dense.hpp has its loop nest). Plain loads and two shared-memory stages,
// which every GPU since sm_70 can run.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/simt/dense_loads.cuh"
#include "cuda/simt/dense_store.cuh"

namespace tconv::cuda {

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
#pragma unroll
  for (int k = 0; k < Shape::kSlab; ++k) {
    typename Shape::Sum a[Shape::kThreadRows], b[Shape::kThreadColumns];
    read_chunks<Shape::kThreadRows, Shape::kRowsApart>(&stage.inputs[k][thread.row], a);
    read_chunks<Shape::kThreadColumns, Shape::kColumnsApart>(&stage.weights[k][thread.column], b);
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
      for (int p = 0; p < Shape::kPasses; ++p) {  // only constants may index registers
        if (p != pass) continue;
#pragma unroll
        for (int i = 0; i < Shape::kChunk; ++i) v.v[i] = sums[c * Shape::kChunk + i][p * Shape::kChunk + j];
      }
      const int row = thread.row + c * Shape::kRowsApart;
      *reinterpret_cast<Vector16<Sum>*>(&shared.staged[column][staged_row<Sum>(row, column)]) = v;
    }
  }
}

// Called when all threads have stored the tile's outputs. Its place is found again, from a number that the
// compiler cannot know to be the same: keeping the place would take registers from the sums.
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
  wait_for_launch_before();
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
  // A slab is multiplied while the next one is fetched. Fetching goes on after the last slab, and its result
  // is not used: a branch there would let the compiler move the loads down to their stores, and every slab
  // would wait for memory (H200: 30 instead of 35 TFLOP/s). Four stages with a barrier every second slab are
  // no faster.
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
    // For the tile with the most sums ptxas 13.0 spills in the loop of one type if this is inline, and in
    // that of the others if it is not.
    if constexpr (std::is_same_v<typename Shape::T, float>) {
      repair_tile_apart<typename Shape::T>(p, Shape::kRows, Shape::kColumns);
    } else {
      repair_tile<typename Shape::T>(p, Shape::kRows, Shape::kColumns);
    }
  }
}

}  // namespace tconv::cuda
