// cuda.simt.longk: a long reduction Cin*K with few outputs (an inverse STFT, a mask decoder): the positions
// of y alone do not fill the machine, so the reduction is cut over blocks.
//
//   pass 1, narrow_kernel (narrow.cuh) with splits > 1:
//     for split in 0..splits-1                                     grid
//       partial[split, n, co, o] = sum over ci of the split, taps t    float32 or float64
//   pass 2, here:
//     for each output (n, co, o)                                   threads
//       y = bias[co] + partial[0] + partial[1] + ...               in this order, no atomics
//
// Pass 1 is bound by FMA (iSTFT) or by reading x (mask decoders); pass 2 reads `splits` times y, from L2.
#pragma once

#include "cuda/simt/longk.hpp"
#include "cuda/simt/storage.cuh"

namespace tconv::cuda::simt {

template <class T>
__global__ void __launch_bounds__(256) sum_partials_kernel(const SumParams a) {
  using Sum = Accumulator<T>;
  constexpr int kAhead = 8;  // loads in flight
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < a.elements;
       e += threads) {
    const Sum* from = static_cast<const Sum*>(a.partial) + e;
    Sum sum = 0;
    int split = 0;
    for (; split + kAhead <= a.splits; split += kAhead) {
      Sum v[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) v[i] = from[(split + i) * a.elements];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sum += v[i];
    }
    for (; split < a.splits; ++split) sum += from[split * a.elements];
    if (a.bias != nullptr) sum += load_bias<T>(a.bias, e / a.lout % a.cout);
    static_cast<T*>(a.y)[e] = narrow<T>(sum);
  }
}

}  // namespace tconv::cuda::simt
