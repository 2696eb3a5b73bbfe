#include "cuda/simt/gather.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T>
GatherFunction by_shape(int co, int p) {
  if (co == 4) return gather_kernel<T, 4, 2>;
  return p == 4 ? gather_kernel<T, 1, 4> : gather_kernel<T, 1, 1>;
}

}  // namespace

GatherFunction gather_function(int element_bytes, int co, int p) {
  if (element_bytes == 2) return by_shape<uint16_t>(co, p);
  return element_bytes == 4 ? by_shape<float>(co, p) : by_shape<double>(co, p);
}

}  // namespace tconv::cuda::simt
