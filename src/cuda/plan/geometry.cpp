#include "cuda/plan/geometry.hpp"

#include <numeric>

#include "core/checked.hpp"

namespace tconv::cuda {

int row_classes(int64_t row, int vector) {
  return static_cast<int>(vector / std::gcd(row, int64_t{vector}));
}

bool copies_reach(const core::Problem& p, int64_t row, int64_t rows, int64_t sample) {
  constexpr int64_t kFar = int64_t{1} << 40;  // bytes: the driver takes steps below it
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  return core::Size(row) * element * rows < kFar && (p.n == 1 || core::Size(sample) * element < kFar);
}

bool rows_on_vectors(const core::Problem& p) {
  return p.lout() * static_cast<int64_t>(size_of(p.dtype)) % 16 == 0;
}

bool writes_pieces(const core::Problem& p, const core::DeviceInfo& d) {
  constexpr double kManyL2 = 5;  // slower from 270 MB on, where an H100's L2 has 50
  const double bytes = static_cast<double>(p.y_elements()) * static_cast<double>(size_of(p.dtype));
  return !rows_on_vectors(p) && bytes > kManyL2 * static_cast<double>(d.l2_bytes);
}

const core::Work& problem_work(const core::Problem& problem) {
  static thread_local core::Problem last;
  static thread_local core::Work found;
  if (!(problem == last)) found = core::work_of(problem), last = problem;
  return found;
}

PhaseSumParams phase_sum_params(const core::Problem& p, const Phases& f) {
  const core::Polyphase form(p);
  PhaseSumParams s{};
  s.lout = p.lout();
  s.cout = static_cast<int>(p.cout);
  s.cout_group = static_cast<int>(p.cout_per_group());
  s.stride = static_cast<int>(p.stride);
  s.dilation = static_cast<int>(p.dilation);
  s.padding = static_cast<int>(p.padding);
  s.phases = static_cast<int>(f.count);
  s.wide = p.dtype == core::DType::f64;
  s.tap_stride = static_cast<int>(f.tap_stride);
  s.inverse = static_cast<int>(form.inverse);
  s.stride_div = Divisor::of(static_cast<uint32_t>(p.stride));
  s.gcd_div = Divisor::of(static_cast<uint32_t>(form.gcd));
  s.tap_stride_div = Divisor::of(static_cast<uint32_t>(f.tap_stride));
  return s;
}

}  // namespace tconv::cuda
