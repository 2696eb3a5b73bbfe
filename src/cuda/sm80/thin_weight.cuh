// The kernel of thin_weight.hpp.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm80/thin_weight_sum.cuh"

namespace tconv::cuda::sm80::thin_weight {

template <class Mode, int kMi, int kNi>
__global__ void __launch_bounds__(kThinWeightThreads, thin_weight_blocks(kMi, kNi, Mode::kCross))
    thin_weight_kernel(const __grid_constant__ ThinWeightParams p) {
  wait_for_launch_before();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using T = typename Mode::T;
  // Quads of words that a thread makes at once: fewer where sums leave too few registers.
  constexpr int kTiles = kMi * kNi,
                kTogether = kTiles > 8 || (kTiles > 2 && kTiles <= 4) ? 2 : kThinWeightTogether;
  extern __shared__ __align__(128) unsigned char shared[];
  const Task task(p, kMi, kNi);
  Channels<T> rows(p.rows, task.rows, task.group, shared);
  Channels<T> columns(p.columns, task.columns, task.group, shared);
  Products<Mode, kMi, kNi> products(shared);
  const auto copy = [&](int tile, int buffer) {
    const auto n = static_cast<int>(p.sample_tiles.divide(tile));
    const int m = (tile - n * static_cast<int>(p.sample_tiles.value)) * p.tile_positions;
    rows.copy(p.rows, n, m, buffer);
    columns.copy(p.columns, n, m, buffer);
    ptx::copy_async_commit();
  };
  copy(task.first, 0);
  int buffer = 0, chain = 0;
  bool first = true, again = false;
#pragma unroll 1
  for (int tile = task.first; tile < task.end; ++tile) {
    ptx::copy_async_wait<0>();
    __syncthreads();  // the channels are complete, and the words of the tile before have been read
    if constexpr (sizeof(T) == 2) {
      rows.template make<kTogether>(p.rows);
      columns.template make<kTogether>(p.columns);
      __syncthreads();
    }
    products.look(p, task, buffer, rows.place(), columns.place());
    const int next = p.buffer_bytes - buffer;
    if (tile + 1 < task.end) copy(tile + 1, next);
    products.add(p);
    if (++chain == p.chain || tile + 1 == task.end) {
      auto* const area = reinterpret_cast<float*>(shared + p.sums_at + buffer);
      again |= finish_chain<Mode, kMi, kNi>(p, task, area, first, products);
      first = false, chain = 0;
    }
    buffer = next;
  }
  if (again) repair<Mode, kMi, kNi>(p);
#endif
}

template <class Mode, int kTile>
constexpr auto kernel_of_tile() {
  constexpr ThinWeightTile kSize = kThinWeightTileTable[kTile];
  void (*kernel)(ThinWeightParams) = nullptr;
  if constexpr (kSize.split || !Mode::kCross) kernel = thin_weight_kernel<Mode, kSize.rows, kSize.columns>;
  return kernel;
}

template <class Mode, int... kTiles>
ThinWeightFunctions functions_of(std::integer_sequence<int, kTiles...>) {
  return {{kernel_of_tile<Mode, kTiles>()...}};
}
template <class Mode>
ThinWeightFunctions functions_of() {
  return functions_of<Mode>(std::make_integer_sequence<int, kThinWeightTiles>());
}

}  // namespace tconv::cuda::sm80::thin_weight
