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
    for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
      double sum = 0;
      for (int64_t slab = 0; slab < slabs; ++slab) sum += partials[slab * count + i];
      epilogue::store_double(dtype, output, i, sum);
    }
  });
}

}  // namespace tconv::cpu::weight
