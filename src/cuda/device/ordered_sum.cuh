// The one kernel that adds partial sums (ordered_sum.hpp).
//
//   for each output e:  y[e] = epilogue(partial[0][e] + partial[1][e] + ...)          in this order
//
// A Place says where they are. Contract, for a block's outputs e in [0, chunk):
//   Place(params)                     the place of this block
//   bool there(uint32_t e)            whether output e exists; if not, none after it does
//   int64_t partial(uint32_t e)       where its first partial sum is; -1: it has no products
//   int64_t channel(uint32_t e)       the channel whose bias it has
//   int64_t first()                   where the block's first output is in y
//   static constexpr int kAhead       how many loads of one output are under way together
#pragma once

#include <concepts>

#include "cuda/device/divide.cuh"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/ordered_sum.hpp"

namespace tconv::cuda {

template <class P>
concept SumPlace = requires(const P place, uint32_t e) {
  typename P::Params;
  { place.there(e) } -> std::same_as<bool>;
  { place.partial(e) } -> std::same_as<int64_t>;
  { place.channel(e) } -> std::same_as<int64_t>;
  { place.first() } -> std::same_as<int64_t>;
  { P::kAhead } -> std::convertible_to<int>;
};

// sums[e] += partial[at[e]] + partial[at[e] + split_size] + ... in this order, for the outputs whose place is
// not negative: kAhead loads of each are under way together. Total: float64 where many parts are added.
template <int kAhead, int kOutputs, class Total, class Part>
__device__ __forceinline__ void add_in_order(const Part* partial, const int64_t (&at)[kOutputs],
                                             int64_t split_size, int splits, Total (&sums)[kOutputs]) {
  for (int split = 0; split < splits; split += kAhead, partial += kAhead * split_size) {
    Part parts[kOutputs][kAhead];
#pragma unroll
    for (int e = 0; e < kOutputs; ++e) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        parts[e][i] = at[e] >= 0 && split + i < splits ? partial[at[e] + i * split_size] : Part(0);
      }
    }
#pragma unroll
    for (int e = 0; e < kOutputs; ++e) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (split + i < splits) sums[e] += parts[e][i];  // a sum of -0.0 stays so
      }
    }
  }
}

class FlatPlace {
 public:
  using Params = FlatSumParams;
  static constexpr int kAhead = 8;

  __device__ explicit FlatPlace(const Params& p) : p_(p), first_(int64_t{blockIdx.x} * p.chunk) {
    const int64_t left = p.elements - first_;
    end_ = static_cast<uint32_t>(left < p.chunk ? left : p.chunk);
  }
  __device__ bool there(uint32_t e) const { return e < end_; }
  __device__ int64_t partial(uint32_t e) const { return first_ + e; }
  __device__ int64_t channel(uint32_t e) const {
    const int64_t row = divide(first_ + e, p_.lout);
    return row - divide(row, p_.cout) * p_.cout;
  }
  __device__ int64_t first() const { return first_; }

 private:
  const Params& p_;
  int64_t first_;
  uint32_t end_;
};

// Counts have 32 bits, as in the families whose sums lie like this.
class PhasePlace {
 public:
  using Params = PhaseSumParams;
  static constexpr int kAhead = 4;

  __device__ explicit PhasePlace(const Params& p) : p_(p) {
    const uint32_t place = p.chunks_div.divide(blockIdx.x), chunk = blockIdx.x - place * p.chunks_div.value;
    first_row_ = place * p.chunk_rows;
    const uint32_t rows = min(p.rows - first_row_, p.chunk_rows);
    begin_ = chunk * p.chunk;
    end_ = min(rows * static_cast<uint32_t>(p.lout), begin_ + p.chunk);
    if (p.chunk_rows == 1) row_place_ = of_row(first_row_);
  }
  __device__ bool there(uint32_t e) const { return begin_ + e < end_; }
  __device__ int64_t partial(uint32_t e) const {
    if (p_.chunk_rows == 1) return of_output(row_place_, begin_ + e);
    const uint32_t row = this->row(e);
    return of_output(of_row(row), begin_ + e - (row - first_row_) * static_cast<uint32_t>(p_.lout));
  }
  __device__ int64_t channel(uint32_t e) const {
    const uint32_t row = p_.chunk_rows == 1 ? first_row_ : this->row(e);
    return row - p_.cout_div.divide(row) * p_.cout;
  }
  __device__ int64_t first() const { return int64_t{first_row_} * p_.lout + begin_; }

 private:
  __device__ uint32_t row(uint32_t e) const { return first_row_ + p_.lout_div.divide(begin_ + e); }

  // Of the row's phase 0, position 0.
  __device__ int64_t of_row(uint32_t row) const {
    const uint32_t n = p_.cout_div.divide(row), cout = row - n * p_.cout;
    const uint32_t group = p_.cout_group_div.divide(cout), inner = cout - group * p_.cout_group;
    const uint32_t block = p_.block_couts_div.divide(inner);
    const int64_t of_block = group * p_.group_rows + int64_t{block} * p_.block_rows;
    return (of_block + (inner - block * p_.block_couts) * p_.cout_rows) * p_.partial_columns +
           int64_t{n} * p_.sample_columns - p_.first_u;
  }

  __device__ int64_t of_output(int64_t row_place, uint32_t o) const {
    const uint32_t q = o + p_.padding;
    if (p_.stride == 1) return row_place + q;  // one phase
    const uint32_t turn = p_.stride_div.divide(q), slot = q - turn * p_.stride;
    // The phase a with a*dilation = slot modulo the stride.
    const uint32_t turns = p_.gcd_div.divide(slot);
    const uint32_t product = turns * p_.inverse;
    const int a = static_cast<int>(product - p_.tap_stride_div.divide(product) * p_.tap_stride);
    if (turns * p_.gcd_div.value != slot || a >= p_.phases) return -1;
    const int u = static_cast<int>(turn) - static_cast<int>(p_.stride_div.divide(a * p_.dilation - slot));
    return row_place + int64_t{a} * p_.phase_rows * p_.partial_columns + u;
  }

  const Params& p_;
  uint32_t first_row_, begin_, end_;
  int64_t row_place_ = 0;  // where a block has one row
};

template <class T, class Part, class Total, SumPlace Place>
__global__ void __launch_bounds__(kSumThreads)
    ordered_sum_kernel(const __grid_constant__ typename Place::Params p) {
  using Finish = epilogue::Epilogue<DeviceRounding<T, Total>>;
  const Place place(p);
  int64_t at[kSumEach];
#pragma unroll
  for (int i = 0; i < kSumEach; ++i) {
    const uint32_t e = threadIdx.x + i * kSumThreads;
    at[i] = place.there(e) ? place.partial(e) : -1;
  }
  Total sums[kSumEach] = {};
  add_in_order<Place::kAhead>(static_cast<const Part*>(p.partial), at, p.split_size, p.splits, sums);
  T* y = static_cast<T*>(p.output) + place.first();
#pragma unroll
  for (int i = 0; i < kSumEach; ++i) {
    const uint32_t e = threadIdx.x + i * kSumThreads;
    if (!place.there(e)) break;
    const Finish finish{p.bias == nullptr ? Total(0) : Total(load_bias_to_add<T>(p.bias, place.channel(e)))};
    y[e] = finish(sums[i]);
  }
}

}  // namespace tconv::cuda
