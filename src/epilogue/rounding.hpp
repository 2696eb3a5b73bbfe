// Storage types on hosts: the type of their sums, and the one rounding with the one NaN. The vector form
// of the same is Narrow in cpu/simd/convert-inl.hpp; tests check that both give the same bits.
#pragma once

#include <cstdint>

#include "core/float16.hpp"
#include "core/nan.hpp"
#include "core/problem.hpp"
#include "epilogue/epilogue.hpp"

namespace tconv::epilogue {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

template <class T>
struct HostRounding;

template <>
struct HostRounding<float> {
  using Storage = float;
  using Sum = float;
  static float round(float v) { return core::canonical(v); }
  static float round_double(double v) { return static_cast<float>(core::canonical(v)); }
};
template <>
struct HostRounding<double> {
  using Storage = double;
  using Sum = double;
  static double round(double v) { return core::canonical(v); }
  static double round_double(double v) { return core::canonical(v); }
};
template <>
struct HostRounding<F16> {
  using Storage = F16;
  using Sum = float;
  static F16 round(float v) { return {core::float_to_f16(v)}; }
  static F16 round_double(double v) { return {core::double_to_f16(core::canonical(v))}; }
};
template <>
struct HostRounding<BF16> {
  using Storage = BF16;
  using Sum = float;
  static BF16 round(float v) { return {core::float_to_bf16(v)}; }
  static BF16 round_double(double v) { return {core::double_to_bf16(core::canonical(v))}; }
};

// Calls f with a value of the dtype's storage type.
template <class F>
auto with_storage(core::DType dtype, F&& f) {
  switch (dtype) {
    case core::DType::f64:
      return f(double{});
    case core::DType::f16:
      return f(F16{});
    case core::DType::bf16:
      return f(BF16{});
    case core::DType::f32:
      break;
  }
  return f(float{});
}

// data[index] = v, for kernels whose sums are float64 in every dtype.
inline void store_double(core::DType dtype, void* data, int64_t index, double v) {
  with_storage(dtype, [&](auto tag) {
    using T = decltype(tag);
    static_cast<T*>(data)[index] = HostRounding<T>::round_double(v);
  });
}

}  // namespace tconv::epilogue
