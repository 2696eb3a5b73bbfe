#include "cpu/common/storage.hpp"
#include "cpu/weight/bias.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/weight/bias_simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/simd/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::weight {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
double SumRow(const T* row, int64_t count) {
  using A = Accumulator<T>;
  using simd::HWY_NAMESPACE::LoadAs;
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::Add(s0, LoadAs(d, row + i));
    s1 = hn::Add(s1, LoadAs(d, row + i + lanes));
    s2 = hn::Add(s2, LoadAs(d, row + i + 2 * lanes));
    s3 = hn::Add(s3, LoadAs(d, row + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) s0 = hn::Add(s0, LoadAs(d, row + i));
  A rest = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < count; ++i) rest += static_cast<A>(widen(row[i]));
  return static_cast<double>(rest);
}

// Elements that are not contiguous are gathered first: the order of sums does not depend on dy's layout.
template <class T>
double SumApart(const T* row, int64_t step, int64_t count) {
  T together[kBiasChunk];
  for (int64_t i = 0; i < count; ++i) together[i] = row[i * step];
  return SumRow(together, count);
}

double Sum(core::DType dtype, const void* dy, int64_t first, int64_t step, int64_t count) {
  return with_storage(dtype, [&](auto storage) HWY_ATTR {
    const auto* row = static_cast<const decltype(storage)*>(dy) + first;
    return step == 1 ? SumRow(row, count) : SumApart(row, step, count);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::weight
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::weight {

HWY_EXPORT(Sum);

double sum_of(core::DType dtype, const void* dy, int64_t first, int64_t step, int64_t count) {
  return TCONV_DISPATCH(Sum)(dtype, dy, first, step, count);
}

}  // namespace tconv::cpu::weight
#endif
