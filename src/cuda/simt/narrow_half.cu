#include "cuda/simt/narrow.cuh"

namespace tconv::cuda::simt {

std::span<const NarrowCompiled> narrow_half() {
  static const NarrowCompiled list[] = {
      {{1, 1, 8}, narrow_kernel<uint16_t, 1, 1, 8>}, {{1, 2, 8}, narrow_kernel<uint16_t, 1, 2, 8>},
      {{1, 4, 4}, narrow_kernel<uint16_t, 1, 4, 4>}, {{1, 8, 4}, narrow_kernel<uint16_t, 1, 8, 4>},
      {{4, 1, 4}, narrow_kernel<uint16_t, 4, 1, 4>}, {{4, 2, 4}, narrow_kernel<uint16_t, 4, 2, 4>},
      {{4, 4, 4}, narrow_kernel<uint16_t, 4, 4, 4>}, {{4, 8, 2}, narrow_kernel<uint16_t, 4, 8, 2>},
      {{8, 2, 4}, narrow_kernel<uint16_t, 8, 2, 4>}, {{8, 4, 2}, narrow_kernel<uint16_t, 8, 4, 2>}};
  return list;
}

}  // namespace tconv::cuda::simt
