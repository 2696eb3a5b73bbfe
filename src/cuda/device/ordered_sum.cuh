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
#include "cuda/device/launch_order.cuh"
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

// at[0] + at[split_size] + ..., kAhead loads under way. Total: float64 if many parts are added.
template <int kAhead, class Total, class Part>
__device__ __forceinline__ Total sum_in_order(const Part* at, int64_t split_size, int splits) {
  Total sum = 0;
  int split = 0;
  for (; split + kAhead <= splits; split += kAhead) {
    Part parts[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) parts[i] = at[(split + i) * split_size];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) sum += parts[i];
  }
  for (; split < splits; ++split) sum += at[split * split_size];
  return sum;
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
  }
  __device__ bool there(uint32_t e) const { return begin_ + e < end_; }
  __device__ int64_t partial(uint32_t e) const {
    const uint32_t row = this->row(e), n = p_.cout_div.divide(row), cout = row - n * p_.cout;
    return of_output(n, cout, begin_ + e - (row - first_row_) * static_cast<uint32_t>(p_.lout));
  }
  __device__ int64_t channel(uint32_t e) const {
    const uint32_t row = this->row(e);
    return row - p_.cout_div.divide(row) * p_.cout;
  }
  __device__ int64_t first() const { return int64_t{first_row_} * p_.lout + begin_; }

 private:
  __device__ uint32_t row(uint32_t e) const { return first_row_ + p_.lout_div.divide(begin_ + e); }

  __device__ int64_t of_output(int64_t n, uint32_t cout, uint32_t o) const {
    const uint32_t q = o + p_.padding;
    const uint32_t turn = p_.stride_div.divide(q), slot = q - turn * p_.stride;
    // The phase a with a*dilation = slot modulo the stride.
    const uint32_t turns = p_.gcd_div.divide(slot);
    const uint32_t product = turns * p_.inverse;
    const int a = static_cast<int>(product - p_.tap_stride_div.divide(product) * p_.tap_stride);
    if (turns * p_.gcd_div.value != slot || a >= p_.phases) return -1;
    const int u = static_cast<int>(turn) - static_cast<int>(p_.stride_div.divide(a * p_.dilation - slot));
    const uint32_t group = p_.cout_group_div.divide(cout), inner = cout - group * p_.cout_group;
    const uint32_t block = p_.block_couts_div.divide(inner);
    const int64_t row = group * p_.group_rows + int64_t{block} * p_.block_rows +
                        (inner - block * p_.block_couts) * p_.cout_rows + a * p_.phase_rows;
    return row * p_.partial_columns + n * p_.sample_columns + (u - p_.first_u);
  }

  const Params& p_;
  uint32_t first_row_, begin_, end_;
};

template <class T, class Part, class Total, SumPlace Place>
__global__ void __launch_bounds__(kSumThreads)
    ordered_sum_kernel(const __grid_constant__ typename Place::Params p) {
  wait_for_launch_before();
  using Finish = epilogue::Epilogue<DeviceRounding<T, Total>>;
  const Place place(p);
  T values[kSumEach];
#pragma unroll
  for (int i = 0; i < kSumEach; ++i) {
    const uint32_t e = threadIdx.x + i * kSumThreads;
    if (!place.there(e)) break;
    const int64_t at = place.partial(e);
    const Finish finish{p.bias == nullptr ? Total(0) : Total(load_bias_to_add<T>(p.bias, place.channel(e)))};
    Total sum = 0;
    if (at >= 0) {
      sum = sum_in_order<Place::kAhead, Total>(static_cast<const Part*>(p.partial) + at, p.split_size,
                                               p.splits);
    }
    values[i] = finish(sum);
  }
  T* y = static_cast<T*>(p.output) + place.first();
#pragma unroll
  for (int i = 0; i < kSumEach; ++i) {
    const uint32_t e = threadIdx.x + i * kSumThreads;
    if (place.there(e)) y[e] = values[i];
  }
}

}  // namespace tconv::cuda
