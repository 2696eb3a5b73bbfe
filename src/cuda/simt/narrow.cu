#include "cuda/simt/narrow.cuh"

namespace tconv::cuda::simt {
namespace {

struct Compiled {
  NarrowTileShape shape;
  NarrowFunction function;
};

// At most 64 sums a thread, so that two blocks of 256 threads fit an SM.
template <class T>
NarrowFunction find(NarrowTileShape shape) {
  static const Compiled list[] = {
      {{1, 1, 8}, narrow_kernel<T, 1, 1, 8>}, {{1, 2, 8}, narrow_kernel<T, 1, 2, 8>},
      {{1, 4, 4}, narrow_kernel<T, 1, 4, 4>}, {{1, 8, 4}, narrow_kernel<T, 1, 8, 4>},
      {{4, 1, 4}, narrow_kernel<T, 4, 1, 4>}, {{4, 2, 4}, narrow_kernel<T, 4, 2, 4>},
      {{4, 4, 4}, narrow_kernel<T, 4, 4, 4>}, {{4, 8, 2}, narrow_kernel<T, 4, 8, 2>},
      {{8, 2, 4}, narrow_kernel<T, 8, 2, 4>}, {{8, 4, 2}, narrow_kernel<T, 8, 4, 2>}};
  for (const Compiled& each : list) {
    if (each.shape == shape) return each.function;
  }
  return nullptr;
}

template <>
NarrowFunction find<double>(NarrowTileShape shape) {
  static const Compiled list[] = {{{1, 1, 4}, narrow_kernel<double, 1, 1, 4>},
                                  {{1, 4, 4}, narrow_kernel<double, 1, 4, 4>},
                                  {{4, 1, 4}, narrow_kernel<double, 4, 1, 4>},
                                  {{4, 4, 2}, narrow_kernel<double, 4, 4, 2>}};
  for (const Compiled& each : list) {
    if (each.shape == shape) return each.function;
  }
  return nullptr;
}

}  // namespace

NarrowFunction narrow_function(int element_bytes, NarrowTileShape shape) {
  if (element_bytes == 2) return find<uint16_t>(shape);
  return element_bytes == 4 ? find<float>(shape) : find<double>(shape);
}

}  // namespace tconv::cuda::simt
