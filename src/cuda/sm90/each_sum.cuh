// Picks a few of a thread's sums, hardly ever any, and loops over them.
#pragma once

#include <cstdint>

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Which of the sums pass a test, a bit each, row after row.
template <int Rows, int Count>
class SumSet {
 public:
  SumSet() = default;
  template <class Test>
  __device__ SumSet(const float (&sums)[Rows][Count], const Test& test) {
#pragma unroll
    for (int i = 0; i < Rows * Count; ++i) {
      words_[i / 32] |= uint32_t{test(sums[i / Count][i % Count])} << i % 32;
    }
  }

  // Calls again(i) for each.
  template <class Again>
  __device__ void for_each(const Again& again) {
    for_words([&](int first, uint32_t word) {
#pragma unroll 1
      for (; word != 0; word &= word - 1) again(first + __ffs(static_cast<int>(word)) - 1);
    });
  }

  // Calls again(i, lane), by all lanes of a warp together, for each of its sums of which exists(i) is true.
  template <class Exists, class Again>
  __device__ void for_each_of_warp(const Exists& exists, const Again& again) {
    for_words([&](int first, uint32_t word) {
#pragma unroll 1
      for (uint32_t left = word; left != 0; left &= left - 1) {
        const int bit = __ffs(static_cast<int>(left)) - 1;
        if (!exists(first + bit)) word &= ~(1u << bit);
      }
      __syncwarp();
#pragma unroll 1
      for (uint32_t lanes = __ballot_sync(~0u, word != 0); lanes != 0;
           lanes = __ballot_sync(~0u, word != 0)) {
        const int lane = __ffs(static_cast<int>(lanes)) - 1;
        again(first + __ffs(static_cast<int>(__shfl_sync(~0u, word, lane))) - 1, lane);
        if (static_cast<int>(threadIdx.x % 32) == lane) word &= word - 1;
      }
    });
  }

  // Whether is(i) is true of one of them. All lanes of a warp together, in as many turns as one of them
  // needs: a loop that lanes leave one by one costs the kernel its uniform registers, and all of it takes 4%
  // longer.
  template <class Is>
  __device__ bool any(const Is& is) {
    bool found = false;
    for_words([&](int first, uint32_t word) {
#pragma unroll 1
      while (__any_sync(0xffffffffu, word != 0)) {
        const bool one = is(first + max(0, __ffs(static_cast<int>(word)) - 1));
        found = found || (word != 0 && one);
        word &= word - 1;
      }
    });
    return found;
  }

 private:
  static constexpr int kWords = (Rows * Count + 31) / 32;

  template <class Each>
  __device__ void for_words(const Each& each) {
#pragma unroll 1
    for (int first = 0; first < Rows * Count; first += 32) {
      each(first, words_[0]);
#pragma unroll
      for (int w = 0; w + 1 < kWords; ++w) words_[w] = words_[w + 1];  // an index would take local memory
    }
  }

  uint32_t words_[kWords] = {};
};

template <int Rows, int Count, class Test>
__device__ inline SumSet<Rows, Count> sums_that(const float (&sums)[Rows][Count], const Test& test) {
  return {sums, test};
}
template <int Count, class Test>
__device__ inline SumSet<1, Count> sums_that(const float (&sums)[Count], const Test& test) {
  return {reinterpret_cast<const float(&)[1][Count]>(sums), test};
}

#endif

}  // namespace tconv::cuda::sm90
