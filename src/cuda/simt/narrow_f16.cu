#include "cuda/simt/narrow.cuh"
#include "cuda/simt/narrow_ring.cuh"

namespace tconv::cuda::simt {

std::span<const NarrowCompiled> narrow_f16() {
  static const NarrowCompiled list[] = {{{1, 1, 8}, false, narrow_kernel<__half, 1, 1, 8>},
                                        {{1, 1, 8}, true, narrow_ring_kernel<__half, 1, 1, 8>},
                                        {{1, 2, 8}, true, narrow_ring_kernel<__half, 1, 2, 8>},
                                        {{1, 4, 8}, true, narrow_ring_kernel<__half, 1, 4, 8>},
                                        {{1, 8, 4}, true, narrow_ring_kernel<__half, 1, 8, 4>},
                                        {{1, 10, 4}, true, narrow_ring_kernel<__half, 1, 10, 4>},
                                        {{4, 1, 8}, false, narrow_kernel<__half, 4, 1, 8>},
                                        {{4, 2, 8}, false, narrow_kernel<__half, 4, 2, 8>},
                                        {{4, 4, 4}, false, narrow_kernel<__half, 4, 4, 4>},
                                        {{4, 4, 8}, false, narrow_kernel<__half, 4, 4, 8>},
                                        {{4, 8, 4}, false, narrow_kernel<__half, 4, 8, 4>}};
  return list;
}

}  // namespace tconv::cuda::simt
