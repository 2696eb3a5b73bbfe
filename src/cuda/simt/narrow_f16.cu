#include "cuda/simt/narrow.cuh"

namespace tconv::cuda::simt {

std::span<const NarrowCompiled> narrow_f16() {
  static const NarrowCompiled list[] = {
      {{1, 1, 8}, narrow_kernel<__half, 1, 1, 8>}, {{1, 2, 8}, narrow_kernel<__half, 1, 2, 8>},
      {{1, 4, 4}, narrow_kernel<__half, 1, 4, 4>}, {{1, 4, 8}, narrow_kernel<__half, 1, 4, 8>},
      {{1, 8, 4}, narrow_kernel<__half, 1, 8, 4>}, {{1, 8, 8}, narrow_kernel<__half, 1, 8, 8>},
      {{4, 1, 8}, narrow_kernel<__half, 4, 1, 8>}, {{4, 2, 8}, narrow_kernel<__half, 4, 2, 8>},
      {{4, 4, 4}, narrow_kernel<__half, 4, 4, 4>}, {{4, 4, 8}, narrow_kernel<__half, 4, 4, 8>},
      {{4, 8, 4}, narrow_kernel<__half, 4, 8, 4>}};
  return list;
}

}  // namespace tconv::cuda::simt
