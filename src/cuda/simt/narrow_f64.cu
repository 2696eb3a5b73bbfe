#include "cuda/simt/narrow.cuh"

namespace tconv::cuda::simt {

std::span<const NarrowCompiled> narrow_f64() {
  static const NarrowCompiled list[] = {
      {{1, 1, 4}, narrow_kernel<double, 1, 1, 4>}, {{1, 4, 4}, narrow_kernel<double, 1, 4, 4>},
      {{1, 8, 4}, narrow_kernel<double, 1, 8, 4>}, {{4, 1, 4}, narrow_kernel<double, 4, 1, 4>},
      {{4, 2, 4}, narrow_kernel<double, 4, 2, 4>}, {{4, 4, 4}, narrow_kernel<double, 4, 4, 4>}};
  return list;
}

}  // namespace tconv::cuda::simt
