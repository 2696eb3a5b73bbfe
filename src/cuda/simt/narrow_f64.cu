#include "cuda/simt/narrow.cuh"
#include "cuda/simt/narrow_ring.cuh"

namespace tconv::cuda::simt {

std::span<const NarrowCompiled> narrow_f64() {
  static const NarrowCompiled list[] = {{{1, 1, 4}, false, narrow_kernel<double, 1, 1, 4>},
                                        {{1, 1, 4}, true, narrow_ring_kernel<double, 1, 1, 4>},
                                        {{1, 4, 4}, true, narrow_ring_kernel<double, 1, 4, 4>},
                                        {{1, 8, 4}, true, narrow_ring_kernel<double, 1, 8, 4>},
                                        {{4, 4, 4}, true, narrow_ring_kernel<double, 4, 4, 4>},
                                        {{4, 1, 4}, false, narrow_kernel<double, 4, 1, 4>},
                                        {{4, 2, 4}, false, narrow_kernel<double, 4, 2, 4>}};
  return list;
}

}  // namespace tconv::cuda::simt
