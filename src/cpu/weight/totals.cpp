#include "cpu/weight/totals.hpp"

#include <algorithm>

#include "core/float16.hpp"
#include "core/nan.hpp"
#include "core/polyphase.hpp"

namespace tconv::cpu::weight {
namespace {

void store(core::DType dtype, void* output, int64_t index, double v) {
  v = core::canonical(v);
  switch (dtype) {
    case core::DType::f32:
      static_cast<float*>(output)[index] = static_cast<float>(v);
      return;
    case core::DType::f64:
      static_cast<double*>(output)[index] = v;
      return;
    case core::DType::f16:
      static_cast<uint16_t*>(output)[index] = core::double_to_f16(v);
      return;
    case core::DType::bf16:
      static_cast<uint16_t*>(output)[index] = core::double_to_bf16(v);
      return;
  }
}

}  // namespace

void store_totals(core::DType dtype, const double* totals, int64_t count, void* output, int64_t first) {
  for (int64_t i = 0; i < count; ++i) store(dtype, output, first + i, totals[i]);
}

void add_slabs(core::DType dtype, const double* partials, int64_t slabs, int64_t count, void* output,
               const core::Executor& executor) {
  constexpr int64_t kBlock = 512;
  executor.run(core::ceil_div(count, kBlock), [&](int64_t block, int32_t) {
    for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
      double sum = 0;
      for (int64_t slab = 0; slab < slabs; ++slab) sum += partials[slab * count + i];
      store(dtype, output, i, sum);
    }
  });
}

}  // namespace tconv::cpu::weight
