// Storage types of the CPU kernels and the type that they are summed in.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/float16.hpp"
#include "core/problem.hpp"
#include "epilogue/rounding.hpp"

namespace tconv::cpu {

using epilogue::BF16;
using epilogue::F16;
using epilogue::with_storage;

template <class T>
using Accumulator = typename epilogue::HostRounding<T>::Sum;
template <class T>
using Epilogue = epilogue::Epilogue<epilogue::HostRounding<T>>;

inline float widen(float v) {
  return v;
}
inline double widen(double v) {
  return v;
}
inline float widen(F16 v) {
  return core::f16_to_float(v.bits);
}
inline float widen(BF16 v) {
  return core::bf16_to_float(v.bits);
}

// What is stored of an accumulator that holds its bias.
template <class T>
T round_to(Accumulator<T> v) {
  return Epilogue<T>{}.begun(v);
}

// Where the sum of channel co begins. With products, a bias of -0.0 counts as +0.0; an output without any is
// its bias, which store_bias_alone (residues.hpp) takes care of.
template <class T>
Accumulator<T> start_of(bool has_bias, const void* bias, int64_t co) {
  using A = Accumulator<T>;
  return has_bias ? static_cast<A>(widen(static_cast<const T*>(bias)[co])) + A{0} : A{0};
}

template <class T>
bool is_negative_zero(T v) {
  return widen(v) == 0 && std::signbit(widen(v));
}
// Whether one of `count` elements is -0.0.
template <class T>
bool any_negative_zero(const void* values, int64_t count) {
  const T* first = static_cast<const T*>(values);
  return std::any_of(first, first + count, [](T v) { return is_negative_zero(v); });
}

inline std::size_t accumulator_size(core::DType dtype) {
  return dtype == core::DType::f64 ? sizeof(double) : sizeof(float);
}

}  // namespace tconv::cpu
