// What the host sides of the simt families have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "core/reach.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda::simt {

// Whether whole positions, with an output for every residue, would nearly all be computed for nothing.
inline bool mostly_cut(const core::Problem& p) {
  return p.stride > 1 << 15 && p.stride / 16 > p.lout();
}

// Empty, or why none of the kernels for this operation can run.
inline std::string simt_refusal(const core::Problem& p, const core::DeviceInfo& device,
                                core::Operation wanted) {
  if (std::string other = plan::other_operation(p, wanted); !other.empty()) return other;
  if (device.sm < 70) return "compute capability below 7.0";
  return core::beyond_tiles(p);
}
inline std::string simt_refusal(const core::Problem& p, const core::DeviceInfo& device) {
  if (std::string words = simt_refusal(p, device, core::Operation::transposed); !words.empty()) return words;
  return mostly_cut(p) ? "padding cuts nearly all outputs of a stride" : "";
}

// Columns of the matrix product: output channels of a group times residues with taps.
inline int64_t columns_of(const core::Problem& p) {
  return p.cout_per_group() * std::min(p.k, p.stride);
}

// What kernels that read x in any steps are told of a transposed product.
template <class Params>
void set_transposed_operands(Params& a, const core::Problem& p, const plan::Operands& operands) {
  const auto steps = p.x_steps();
  a.x = operands.x, a.weight = operands.weight, a.y = operands.output;
  a.bias = p.has_bias ? operands.bias : nullptr;
  a.x_sample = steps[0], a.x_channel = steps[1], a.x_position = steps[2];
  a.l = p.l, a.lout = p.lout(), a.padding = p.padding;
}

// An entry's make().
template <class Kernel>
std::unique_ptr<const plan::Kernel> make_kernel(const core::Problem& p, const core::DeviceInfo& device,
                                                const plan::PlanOptions& options) {
  return std::make_unique<Kernel>(p, device, options);
}

inline const char* tf32_words(const core::Problem& p) {
  return p.precision == core::Precision::tf32 ? "; tf32 runs as ieee: no tensor cores here" : "";
}

}  // namespace tconv::cuda::simt
