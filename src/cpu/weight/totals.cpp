#include "cpu/weight/totals.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "epilogue/rounding.hpp"

namespace tconv::cpu::weight {

void store_totals(core::DType dtype, const double* totals, int64_t count, void* output, int64_t first) {
  epilogue::with_storage(dtype, [&](auto tag) {
    using T = decltype(tag);
    T* to = static_cast<T*>(output) + first;
    for (int64_t i = 0; i < count; ++i) to[i] = epilogue::HostRounding<T>::round_double(totals[i]);
  });
}

void add_slabs(core::DType dtype, const double* partials, int64_t slabs, int64_t count, void* output,
               const core::Executor& executor) {
  constexpr int64_t kBlock = 512;
  executor.run(core::ceil_div(count, kBlock), [&](int64_t block, int32_t) {
    const int64_t first = block * kBlock, size = std::min(kBlock, count - first);
    double sums[kBlock] = {};
    for (int64_t slab = 0; slab < slabs; ++slab) {
      const double* from = partials + slab * count + first;
      for (int64_t i = 0; i < size; ++i) sums[i] += from[i];
    }
    store_totals(dtype, sums, size, output, first);
  });
}

}  // namespace tconv::cpu::weight
