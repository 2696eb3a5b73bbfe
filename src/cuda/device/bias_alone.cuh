// Outputs without products where the bias is -0.0 (cuda/host/bias_alone.hpp).
#pragma once

#include "cuda/device/bias_alone.hpp"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"

namespace tconv::cuda {

// Whether a tap k with q - k*dilation = stride*i, 0 <= i < l, exists.
__device__ inline bool has_product(const BiasAloneParams& p, int64_t q) {
  const int64_t r = q % p.stride;
  if (r % p.gcd != 0) return false;
  const auto product = static_cast<unsigned __int128>(r / p.gcd) * static_cast<uint64_t>(p.inverse);
  const auto first = static_cast<int64_t>(product % static_cast<uint64_t>(p.tap_stride));
  if (first >= p.k || first * p.dilation > q) return false;
  // Taps first + t*tap_stride are at positions i - t*step.
  const int64_t i = (q - first * p.dilation) / p.stride;
  const int64_t least = i < p.l ? 0 : (i - p.l) / p.step + 1;
  const int64_t taps = (p.k - 1 - first) / p.tap_stride;  // after the first
  return least <= taps && least <= i / p.step;
}

// The same for a strided product: whether a tap k with 0 <= stride*i - padding + dilation*k < l exists.
__device__ inline bool has_strided_product(const BiasAloneParams& p, int64_t i) {
  const int64_t o = i * p.stride - p.padding;
  if (o >= p.l) return false;
  const int64_t least = o >= 0 ? 0 : (-o - 1) / p.dilation + 1;
  return least < p.k && least <= (p.l - 1 - o) / p.dilation;
}

// A block takes channels in turn, and finds for most that the bias is not -0.0.
template <class T, bool kStrided = false>
__global__ void __launch_bounds__(kBiasAloneThreads)
    bias_alone_kernel(const __grid_constant__ BiasAloneParams p) {
  wait_for_launch_before();
  for (int64_t co = blockIdx.x; co < p.cout; co += gridDim.x) {
    const Epilogue<T> finish = epilogue_of<T>(p.bias, co);
    if (finish.bias != 0 || !signbit(finish.bias)) continue;
    for (int64_t n = 0; n < p.n; ++n) {
      T* row = static_cast<T*>(p.y) + (n * p.cout + co) * p.lout;
      for (int64_t o = threadIdx.x; o < p.lout; o += kBiasAloneThreads) {
        const bool any = kStrided ? has_strided_product(p, o) : has_product(p, o + p.padding);
        if (!any) row[o] = finish.alone();
      }
    }
  }
}

}  // namespace tconv::cuda
