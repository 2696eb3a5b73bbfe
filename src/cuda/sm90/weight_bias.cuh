// The gradient of the bias in cuda.sm90.weight_rows and cuda.sm90.weight_turned, summed by the warps that
// hold dy in registers to make its planes:
//
//   for stage, 8 channels, run of positions:   a warp's sum in float32, added to a float64 of the warp
//   behind the last stage:                     the sums of a block's warps, in order: a part of the channel's
//   a second kernel, for channel:              a warp adds the parts in float64, and rounds once
//
// So only the elements of a run, some hundred at most, meet roundings of float32, however long a sum is.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/weight_units.cuh"

namespace tconv::cuda::sm90::weight_units {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The sums of one warp, [group of 8 channels][channel], in shared memory. kSumsY: of the kernel.
template <bool kSumsY>
class BiasSums {
 public:
  // Only the blocks of the first row tile sum: the others read the same dy. warp: of those that sum.
  __device__ BiasSums(const Sm90WeightUnitsParams& p, const Place& at, uint32_t slots, int warp, int columns)
      : own_(kSumsY && at.row_block == 0 ? slots + p.bias_at + weight_bias_bytes(columns, warp) : 0) {
    if constexpr (kSumsY) {
      for (int i = threadIdx.x % 32; on() && i < columns; i += 32) store(own_ + 8 * i, 0);
      __syncwarp();
    }
  }

  __device__ bool on() const { return own_ != 0; }
  // By one lane, always the same one for a channel.
  __device__ void add(int group, int channel, float sum) const {
    const uint32_t place = own_ + (group * 8 + channel) * 8;
    store(place, load(place) + sum);
  }

  // By all threads that sum, behind their last stage. channel(column): where a column's sum belongs and which
  // part of it this is, or -1.
  template <class Channel>
  __device__ void finish(const Sm90WeightUnitsParams& p, uint32_t slots, int columns, int warps,
                         const Channel& part_of) const {
    if (!on()) return;
    ptx::named_barrier(2, 32 * warps);
    for (int column = threadIdx.x - 256; column < columns; column += 32 * warps) {
      double sum = 0;
      for (int warp = 0; warp < warps; ++warp) {
        sum += load(slots + p.bias_at + weight_bias_bytes(columns, warp) + column * 8);
      }
      const int64_t part = part_of(column);
      if (part >= 0) p.bias_parts[part] = sum;
    }
  }

 private:
  __device__ static double load(uint32_t from) {
    double v;
    asm volatile("ld.shared.f64 %0, [%1];\n" : "=d"(v) : "r"(from) : "memory");
    return v;
  }
  __device__ static void store(uint32_t to, double v) {
    asm volatile("st.shared.f64 [%0], %1;\n" ::"r"(to), "d"(v) : "memory");
  }

  uint32_t own_;  // 0: it sums nothing
};

#endif

template <class T>
__global__ void __launch_bounds__(kSm90WeightBiasThreads)
    bias_kernel(const __grid_constant__ Sm90WeightBiasParams p) {
  wait_for_launch_before();
  const int64_t channel = int64_t{blockIdx.x} * (kSm90WeightBiasThreads / 32) + threadIdx.x / 32;
  if (channel >= p.channels) return;
  const double* const parts = p.parts + channel * p.each;
  double sum = 0;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < p.each; i += 32) sum += parts[i];
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_down_sync(~0u, sum, apart);
  if (threadIdx.x % 32 == 0) static_cast<T*>(p.output)[channel] = narrow_double<T>(sum);
}

}  // namespace tconv::cuda::sm90::weight_units
