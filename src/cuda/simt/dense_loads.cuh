// How the x and the weights of a slab get into shared memory for cuda.simt.dense: through registers, fetched
// while the previous slab is multiplied.
#pragma once

#include "cuda/simt/dense_block.cuh"

namespace tconv::cuda {

// Inputs of a slab: a thread keeps to one row of the tile and reads some of its channels; neighbouring
// threads read neighbouring positions. Any strides and any alignment.
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

}  // namespace tconv::cuda
