#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/device/launch_order.cuh"
#include "cuda/host/zero.hpp"

namespace tconv::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline void store_zeros(const ZeroParams& p) {
  const int64_t words = p.bytes / 4, first = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (int64_t i = first; i < words; i += int64_t{gridDim.x} * kThreads) {
    reinterpret_cast<unsigned*>(p.to)[i] = 0;
  }
  if (first < p.bytes - 4 * words) p.to[4 * words + first] = 0;
}

__global__ void __launch_bounds__(kThreads) zero_kernel(const __grid_constant__ ZeroParams p) {
  wait_for_launch_before(p.order);
  store_zeros(p);
  wait_for_launch_beside(p.order);
}

}  // namespace

core::Status zero(const Launcher& launcher, void* to, std::size_t bytes, const LaunchOrder& order) {
  const ZeroParams params{static_cast<unsigned char*>(to), static_cast<int64_t>(bytes), order};
  constexpr int64_t kMostBlocks = 1024;
  const int64_t blocks =
      std::clamp<int64_t>(core::ceil_div(params.bytes, int64_t{4} * kThreads), 1, kMostBlocks);
  return launcher.run(zero_kernel, {blocks, kThreads}, params);
}

}  // namespace tconv::cuda
