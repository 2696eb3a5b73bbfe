#include "cuda/plan/geometry.hpp"

#include <numeric>

namespace tconv::cuda {

PhaseSumParams phase_sum_params(const core::Problem& p, const Phases& f) {
  const int64_t g = std::gcd(p.stride, p.dilation);
  int64_t inverse = 1;  // of dilation/g modulo stride/g
  while (f.tap_stride > 1 && inverse * (p.dilation / g % f.tap_stride) % f.tap_stride != 1) ++inverse;
  PhaseSumParams s{};
  s.lout = p.lout();
  s.cout = static_cast<int>(p.cout);
  s.cout_group = static_cast<int>(p.cout_per_group());
  s.stride = static_cast<int>(p.stride);
  s.dilation = static_cast<int>(p.dilation);
  s.padding = static_cast<int>(p.padding);
  s.phases = static_cast<int>(f.count);
  s.tap_stride = static_cast<int>(f.tap_stride);
  s.inverse = static_cast<int>(inverse);
  s.stride_div = Divisor::of(static_cast<uint32_t>(p.stride));
  s.gcd_div = Divisor::of(static_cast<uint32_t>(g));
  s.tap_stride_div = Divisor::of(static_cast<uint32_t>(f.tap_stride));
  return s;
}

}  // namespace tconv::cuda
