// What the tests of plans share: devices that need not be here, a kernel's refusals, random problems.
#pragma once

#include <string>

#include "core/problem.hpp"
#include "judge/draw.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda_test {

inline core::DeviceInfo device(const char* name) {
  return core::named_device(name).value();
}

// Why a kernel refuses a problem on a device; empty if it does not.
inline std::string refusal(const plan::KernelEntry& entry, const std::string& text, const char* name,
                           bool forced) {
  plan::PlanOptions options;
  if (forced) options.force_kernel = entry.name;
  const plan::Support support = entry.supports(core::parse(text).value(), device(name), options);
  return support.ok ? "" : support.reason;
}

// Whether a kernel can run a problem, which has outputs, on a device.
inline bool takes(const plan::KernelEntry& entry, const core::Problem& p, const core::DeviceInfo& device) {
  plan::PlanOptions forced;
  forced.force_kernel = entry.name;
  return p.output_elements() > 0 && entry.supports(p, device, forced).ok;
}

// A valid problem whose product is a transposed one; every other one is of strided products that have such a
// form (cuda/host/transposed_form.hpp).
inline core::Problem draw_transposed(judge::Rng& rng) {
  judge::DrawOptions draw;
  draw.gradients = false;
  while (true) {
    core::Problem p = judge::draw_valid(rng, draw);
    if (rng.chance(50)) return p;
    p.operation = core::Operation::strided;
    p.has_bias = false;
    p.x_contiguous = true;
    p.x_stride = {0, 0, 0};
    if (rng.chance(50)) p.stride = 1;
    if (rng.chance(20))
      p.y_contiguous = false, p.y_stride = {p.cout * (p.lout() + 3) * 2, 2 * (p.lout() + 3), 2};
    if (core::validate(p).ok()) return p;
  }
}

}  // namespace tconv::cuda_test
