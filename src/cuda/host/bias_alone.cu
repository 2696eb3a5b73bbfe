#include <algorithm>

#include "core/nan.hpp"
#include "core/polyphase.hpp"
#include "cuda/device/bias_alone.cuh"
#include "cuda/host/bias_alone.hpp"
#include "cuda/host/by_dtype.cuh"

namespace tconv::cuda {

using core::DType;
using core::Problem;
using core::Status;

static_assert(kNanF32 == core::canonical_nan(DType::f32) && kNanF64 == core::canonical_nan(DType::f64) &&
              kNanF16 == core::canonical_nan(DType::f16) && kNanBf16 == core::canonical_nan(DType::bf16));

namespace {

// For phases [first, end), which have `taps` taps: whether the taps of some output all lie outside x: before
// it, after it or, if they are further apart than x is long, on both sides of it.
bool has_unreached(const Problem& p, const core::Polyphase& f, int64_t first, int64_t end, int64_t taps) {
  if (first >= end || taps == 0) return false;
  const int64_t reach = (end - 1) * p.dilation;
  const bool before = p.padding - reach <= -p.stride;
  const int64_t last = core::floor_div(p.lout() - 1 + p.padding - first * p.dilation, p.stride);
  const bool behind = last - (taps - 1) * f.step >= p.l;
  return before || behind || (taps > 1 && f.step > p.l);
}

// For a strided product: whether the taps of some output all lie before dy, after it, or on both sides of it.
bool has_unreached_strided(const Problem& p) {
  const int64_t reach = p.dilation * (p.k - 1);
  const bool before = reach < p.padding, behind = p.stride * (p.l - 1) - p.padding >= p.lout();
  return before || behind || (p.k > 1 && p.dilation > p.lout());
}

template <bool kStrided>
void (*function_of(DType dtype))(BiasAloneParams) {
  return by_dtype(dtype, [](auto type) { return &bias_alone_kernel<decltype(type), kStrided>; });
}

}  // namespace

bool needs_bias_alone(const Problem& p, BiasStored stored) {
  if (!p.has_bias) return false;
  if (p.operation != core::Operation::transposed) return has_unreached_strided(p);
  const core::Polyphase f(p);
  if (stored == BiasStored::none && f.count < p.stride) return true;
  const int64_t longer = f.longer();
  return has_unreached(p, f, 0, longer, f.taps) || has_unreached(p, f, longer, f.count, f.taps - 1);
}

Status store_bias_alone(const Launcher& launcher, const Problem& p, const plan::Operands& operands,
                        BiasStored stored) {
  if (operands.bias == nullptr || !needs_bias_alone(p, stored)) return {};
  BiasAloneParams params{};
  constexpr int64_t kMostBlocks = 1024;
  if (p.operation != core::Operation::transposed) {
    params.bias = operands.bias, params.y = operands.output;
    params.n = p.n, params.cout = p.cin, params.l = p.lout(), params.lout = p.l, params.k = p.k;
    params.stride = p.stride, params.padding = p.padding, params.dilation = p.dilation;
    return launcher.run(function_of<true>(p.dtype), {std::min(p.cin, kMostBlocks), kBiasAloneThreads},
                        params);
  }
  const core::Polyphase form(p);
  params.bias = operands.bias, params.y = operands.output;
  params.n = p.n, params.cout = p.cout, params.l = p.l, params.lout = p.lout(), params.k = p.k;
  params.stride = p.stride, params.padding = p.padding, params.dilation = p.dilation;
  params.gcd = form.gcd, params.tap_stride = form.tap_stride, params.step = form.step;
  params.inverse = form.inverse;
  return launcher.run(function_of<false>(p.dtype), {std::min(p.cout, kMostBlocks), kBiasAloneThreads},
                      params);
}

}  // namespace tconv::cuda
