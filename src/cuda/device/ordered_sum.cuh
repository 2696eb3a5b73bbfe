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

// The same for several outputs of a thread, or for few splits: kAhead parts of each output are loaded
// together, without a branch between them, because a load takes as long as hundreds of additions. at[i]:
// where output i's first part is, -1: it has none. What is loaded beyond the last split adds +0, which
// changes no bits: a sum that began with +0 is never -0.
template <int kAhead, int kCount, class Total, class Part>
__device__ __forceinline__ void sum_together(Total (&sums)[kCount], const Part* parts,
                                             const int64_t (&at)[kCount], int64_t split_size, int splits) {
  const Part* from[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    sums[i] = 0;
    from[i] = parts + (at[i] >= 0 ? at[i] : 0);
  }
#pragma unroll 1
  for (int split = 0; split < splits; split += kAhead) {
    Part loaded[kCount][kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t step = min(k, splits - 1 - split) * split_size;
#pragma unroll
      for (int i = 0; i < kCount; ++i) loaded[i][k] = from[i][step];
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int k = 0; k < kAhead; ++k) sums[i] += split + k < splits ? loaded[i][k] : Part(0);
      from[i] += kAhead * split_size;
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (at[i] < 0) sums[i] = 0;
  }
}

class FlatPlace {
 public:
  using Params = FlatSumParams;

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

// Where u = 0 of a row (n, cout) of y is in the partial sums of its first phase.
__device__ inline int64_t row_at(const PhaseSumParams& p, uint32_t row) {
  const uint32_t n = p.cout_div.divide(row), cout = row - n * p.cout;
  const uint32_t group = p.cout_group_div.divide(cout), inner = cout - group * p.cout_group;
  const uint32_t block = p.block_couts_div.divide(inner);
  const int64_t of_sums = group * p.group_rows + int64_t{block} * p.block_rows +
                          int64_t{inner - block * p.block_couts} * p.cout_rows;
  return of_sums * p.partial_columns + int64_t{n} * p.sample_columns - p.first_u;
}

// Counts have 32 bits, as in the families whose sums lie like this.
class PhasePlace {
 public:
  using Params = PhaseSumParams;

  __device__ explicit PhasePlace(const Params& p) : p_(p) {
    const uint32_t place = p.chunks_div.divide(blockIdx.x), chunk = blockIdx.x - place * p.chunks_div.value;
    first_row_ = place * p.chunk_rows;
    const uint32_t rows = min(p.rows - first_row_, p.chunk_rows);
    begin_ = chunk * p.chunk;
    end_ = min(rows * static_cast<uint32_t>(p.lout), begin_ + p.chunk);
    row_ = row_at(p, first_row_);
  }
  __device__ bool there(uint32_t e) const { return begin_ + e < end_; }
  __device__ int64_t partial(uint32_t e) const {
    const uint32_t row = this->row(e);
    return of_output(row == 0 ? row_ : row_at(p_, first_row_ + row),
                     begin_ + e - row * static_cast<uint32_t>(p_.lout));
  }
  __device__ int64_t channel(uint32_t e) const { return cout(first_row_ + row(e)); }
  __device__ int64_t first() const { return int64_t{first_row_} * p_.lout + begin_; }

 private:
  // Of the block's rows, the one of output e: the same in all threads if there is one.
  __device__ uint32_t row(uint32_t e) const {
    return p_.chunk_rows == 1 ? 0 : p_.lout_div.divide(begin_ + e);
  }
  __device__ uint32_t cout(uint32_t row) const { return row - p_.cout_div.divide(row) * p_.cout; }

  __device__ int64_t of_output(int64_t row_at, uint32_t o) const {
    const uint32_t q = o + p_.padding;
    if (p_.stride == 1) return row_at + static_cast<int32_t>(q);  // the padding may be below 0
    const uint32_t turn = p_.stride_div.divide(q), slot = q - turn * p_.stride;
    if (p_.dilation == 1) {
      return slot < static_cast<uint32_t>(p_.phases)
                 ? row_at + slot * p_.phase_rows * p_.partial_columns + turn
                 : -1;
    }
    // The phase a with a*dilation = slot modulo the stride.
    const uint32_t turns = p_.gcd_div.divide(slot);
    const uint32_t product = turns * p_.inverse;
    const int a = static_cast<int>(product - p_.tap_stride_div.divide(product) * p_.tap_stride);
    if (turns * p_.gcd_div.value != slot || a >= p_.phases) return -1;
    const int u = static_cast<int>(turn) - static_cast<int>(p_.stride_div.divide(a * p_.dilation - slot));
    return row_at + a * p_.phase_rows * p_.partial_columns + u;
  }

  const Params& p_;
  uint32_t first_row_, begin_, end_;
  int64_t row_;  // row_at of the first one
};

// kCount outputs of a thread.
template <int kCount, class T, class Part, class Total, SumPlace Place>
__device__ __forceinline__ void sum_outputs(const typename Place::Params& p, const Place& place) {
  using Finish = epilogue::Epilogue<DeviceRounding<T, Total>>;
  int64_t at[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint32_t e = threadIdx.x + i * kSumThreads;
    at[i] = place.there(e) ? place.partial(e) : -1;
  }
  Total sums[kCount];
  const Part* const parts = static_cast<const Part*>(p.partial);
  constexpr int kManySplits = 16;  // of few outputs, whose loads the latency of memory binds
  if (kCount == 1 && p.splits > kManySplits) {
    sum_together<32>(sums, parts, at, p.split_size, p.splits);
  } else {
    sum_together<kCount == 1 ? 8 : 4>(sums, parts, at, p.split_size, p.splits);
  }
  T* y = static_cast<T*>(p.output) + place.first();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint32_t e = threadIdx.x + i * kSumThreads;
    if (!place.there(e)) break;
    const Finish finish{p.bias == nullptr ? Total(0) : Total(load_bias_to_add<T>(p.bias, place.channel(e)))};
    y[e] = finish(sums[i]);
  }
}

template <class T, class Part, class Total, SumPlace Place>
__global__ void __launch_bounds__(kSumThreads)
    ordered_sum_kernel(const __grid_constant__ typename Place::Params p) {
  wait_for_launch_before();
  const Place place(p);
  if (place.there(kSumThreads)) {
    sum_outputs<kSumEach, T, Part, Total>(p, place);
  } else {
    sum_outputs<1, T, Part, Total>(p, place);
  }
}

}  // namespace tconv::cuda
