// clang-format off
// The strided product as a transposed one of stride 1, so that one kernel serves both. With g = gcd(stride,
// dilation), any multiple m of stride/g and k = a + m*j, a in [0, m),
//
//   dx[n,ci,i] = sum over co, k of dy[n,co,o] * w[ci,co,k],                             o = stride*i - padding + dilation*k
//              = sum over (co,a), j of planes[n,(co,a),i + j*step] * w[ci,co,a + m*j],  step = dilation*m/stride
//   planes[n,(co,a),v] = dy[n,co,stride*v + dilation*a - padding]
// clang-format on
//
// This is a product of the planes and taps j in falling order, with the channels of both sides exchanged. At
// stride 1 with m = 1 the planes are dy itself and need not be made: the form's padding is then
// dilation*(K-1) - padding. It may be negative, and so may the output padding, which makes the output as long
// as x. With few channels m is larger, so that (co, a) fill a slab of the tensor cores.
//
// Making the planes takes one pass over memory. Their rows are aligned to 16 bytes, whatever the alignment of
// the rows of dy is.
#pragma once

#include "core/problem.hpp"
#include "cuda/device/launch_order.hpp"
#include "cuda/device/planes.hpp"
#include "cuda/device/weight_steps.hpp"
#include "cuda/host/launch.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

struct TransposedForm {
  // Only for the formulas of plans: core::validate would refuse its padding. A transposed product is itself.
  core::Problem product;
  WeightSteps weights = {};
  DeepTaps deep = {};
  bool planes = false;
  int64_t planes_bytes = 0;

  double planes_ms(const core::DeviceInfo& device) const;
};

// Empty if a problem has such a form (or is one), otherwise the reason why not.
std::string no_transposed_form(const core::Problem& problem);
TransposedForm transposed_form(const core::Problem& problem);

// The same with channels in units (UnitOrder), for kernels that read x as it lies in memory even where the
// form has planes: the product has as many input channels as whole channel blocks of all row classes have.
// Empty if such a kernel can read x, otherwise the reason why not.
std::string no_turned_form(const core::Problem& problem);
TransposedForm turned_form(const core::Problem& problem);

// The same with slabs of one phase each, of `slab` channels, for kernels that leave out the taps which some
// phases lack. Empty if there are some, otherwise the reason why not.
std::string no_phased_form(const core::Problem& problem);
TransposedForm phased_form(const core::Problem& problem, int slab);

// The part of the form on which packed weights depend, for the key of their layout.
std::string key_of(const TransposedForm& form);

// ", x in planes of 8 phases (12 MB)", or nothing.
std::string words_of(const TransposedForm& form);

// The x of the form; made in `planes` if necessary. `x` is null if that fails.
core::Status form_input(const TransposedForm& form, const core::Problem& problem, const Launcher& launcher,
                        const plan::Operands& operands, void* planes, LaunchOrder order, const void*& x);

}  // namespace tconv::cuda
