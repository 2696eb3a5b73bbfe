// What happens to a finished sum on its way to memory, on hosts and devices:
//
//   y = round(activation(scale * sum + bias + residual))
//
// Each slot is a type; an empty one costs nothing. A kernel makes one Epilogue for each output channel and
// calls it once for each output. The rules of docs/bits.md live here and in the target's Rounding
// (rounding.hpp on hosts, cuda/device/epilogue.cuh on devices): one rounding, one NaN, and an output without
// products is its bias, -0.0 included.
//
// A kernel whose sums begin at their bias, as most CPU kernels' do, calls begun() at their end.
#pragma once

#include <cmath>
#include <concepts>

// A .cu file has the device's functions, a .cpp file the host's.
#ifdef __CUDACC__
#define TCONV_FUNCTOR __device__ __forceinline__
#else
#define TCONV_FUNCTOR inline
#endif

namespace tconv::epilogue {

// How a target stores a type: Storage round(Sum) rounds once and makes every NaN the canonical one.
template <class R>
concept Rounding = requires(typename R::Sum sum) {
  { R::round(sum) } -> std::same_as<typename R::Storage>;
};

// Slot scale. A scale and the bias are one fused multiply-add.
struct Unscaled {
  template <class Sum>
  TCONV_FUNCTOR Sum operator()(Sum sum, Sum bias) const {
    return sum + bias;
  }
};
template <class Sum>
struct Scaled {
  Sum by;
  TCONV_FUNCTOR Sum operator()(Sum sum, Sum bias) const { return std::fma(sum, by, bias); }
};

// Slot activation: any function of one number.
struct Identity {
  template <class Sum>
  TCONV_FUNCTOR Sum operator()(Sum v) const {
    return v;
  }
};

template <class S, class Sum>
concept ScaleSlot = requires(const S scale, Sum v) {
  { scale(v, v) } -> std::same_as<Sum>;
};
template <class A, class Sum>
concept ActivationSlot = requires(const A activation, Sum v) {
  { activation(v) } -> std::same_as<Sum>;
};

// Of one output channel.
template <Rounding R, ScaleSlot<typename R::Sum> Scale = Unscaled,
          ActivationSlot<typename R::Sum> Activation = Identity>
struct Epilogue {
  using Sum = typename R::Sum;
  using Storage = typename R::Storage;

  Sum bias;
  [[no_unique_address]] Scale scale{};
  [[no_unique_address]] Activation activation{};

  // Of a sum of products, and with the residual that the writer read at the output's place.
  TCONV_FUNCTOR Storage operator()(Sum sum) const { return R::round(value(sum)); }
  TCONV_FUNCTOR Storage operator()(Sum sum, Sum residual) const { return R::round(value(sum, residual)); }
  // Of an output without products: nothing is added to the bias, so that a zero keeps its sign.
  TCONV_FUNCTOR Storage alone() const { return R::round(value_alone()); }
  // Of a sum that began at its bias.
  TCONV_FUNCTOR Storage begun(Sum sum) const { return R::round(value_begun(sum)); }

  // The same before the rounding, for those who round several outputs in one instruction.
  TCONV_FUNCTOR Sum value(Sum sum) const { return activation(scale(sum, bias)); }
  TCONV_FUNCTOR Sum value(Sum sum, Sum residual) const { return activation(scale(sum, bias) + residual); }
  TCONV_FUNCTOR Sum value_alone() const { return activation(bias); }
  TCONV_FUNCTOR Sum value_begun(Sum sum) const { return activation(sum); }
};

}  // namespace tconv::epilogue
