#include "cuda/device/epilogue.cuh"
#include "cuda/simt/bias.hpp"

namespace tconv::cuda::simt {
namespace {

template <class T>
__global__ void __launch_bounds__(kBiasThreads) bias_kernel(const __grid_constant__ BiasParams p) {
  using Sum = Accumulator<T>;
  __shared__ Sum of_warps[kBiasThreads / 32];
  const int64_t split = blockIdx.x / p.cout, co = blockIdx.x - split * p.cout;
  const T* y = static_cast<const T*>(p.y) + co * p.y_step[1];
  const int64_t first = split * p.split_elements + threadIdx.x;
  const int64_t end = min(p.elements, (split + 1) * p.split_elements);
  int64_t n = first / p.lout, o = first - n * p.lout;
  const int64_t n_step = kBiasThreads / p.lout, o_step = kBiasThreads % p.lout;
  Sum sums[kBiasSums] = {};
  for (int64_t e = first; e < end; e += kBiasThreads * kBiasSums) {
    T v[kBiasSums];
#pragma unroll
    for (int s = 0; s < kBiasSums; ++s) {
      const bool there = e + s * kBiasThreads < end;
      v[s] = there ? __ldg(y + n * p.y_step[0] + o * p.y_step[2]) : T(0.0f);
      n += n_step;
      o += o_step;
      if (o >= p.lout) {
        o -= p.lout;
        ++n;
      }
    }
#pragma unroll
    for (int s = 0; s < kBiasSums; ++s) sums[s] += widen(v[s]);
  }
#pragma unroll
  for (int apart = kBiasSums / 2; apart > 0; apart /= 2) {
#pragma unroll
    for (int s = 0; s < apart; ++s) sums[s] += sums[s + apart];
  }
  Sum sum = sums[0];
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_down_sync(0xffffffffu, sum, apart);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int w = 1; w < kBiasThreads / 32; ++w) sum += of_warps[w];
  if (p.parts != nullptr) {
    static_cast<Sum*>(p.parts)[split * p.cout + co] = sum;
  } else {
    static_cast<T*>(p.output)[co] = narrow<T>(sum);
  }
}

}  // namespace

BiasFunction bias_function(core::DType dtype) {
  switch (dtype) {
    case core::DType::f64:
      return bias_kernel<double>;
    case core::DType::f16:
      return bias_kernel<__half>;
    case core::DType::bf16:
      return bias_kernel<__nv_bfloat16>;
    case core::DType::f32:
      break;
  }
  return bias_kernel<float>;
}

}  // namespace tconv::cuda::simt
