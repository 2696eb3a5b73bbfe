#include <algorithm>

#include "cpu/common/make_kernel.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/outer/contract.hpp"
#include "cpu/weight/contract.hpp"
#include "cpu/weight/slab_kernel.hpp"

namespace tconv::cpu::outer {
namespace {

class OuterKernel final : public weight::SlabKernel<Job> {
 public:
  OuterKernel(const core::Problem& problem, int threads) : SlabKernel(make_job(problem, threads), threads) {}

 private:
  void run_task(int64_t index, const plan::Operands& operands, void* panel, double* totals,
                double* partials) const override {
    compute(job_, task_at(job_, index), operands, panel, totals, partials);
  }
};

// Cycles of an element of Y, and of each row of dy over its tap. Few taps side by side do not fill a vector;
// of one tap, four rows are copied at once.
struct CopyCycles {
  double element, row;
};
CopyCycles copy_cycles(const core::Problem& p) {
  const auto k = static_cast<double>(p.k);
  if (p.k == 1 && p.stride == 1 && p.padding == 0 && p.cout_per_group() % 4 == 0) return {0.88, 6};
  if (make_job(p, 1).config.padded_row > 0) return {p.dilation == 1 ? 0.45 + 1.4 / k : 0.94, 11};
  return {(p.k < 8 ? 0.81 : 0.66) + 0.4 / k, 26};
}

// Cycles per (n, i) and (co, k) on 16 lanes of float32, in the units of cycles_of_dots: fitted to 350 layers
// on a Xeon with AVX-512, most of them drawn from short batches, dilated convolutions and few channels, with
// both kernels timed in turns. The choice takes 1.007 times as long as the better kernel on average.
double cycles(const core::Problem& p) {
  const int64_t ci = p.cin_per_group(), all = p.cout_per_group() * p.k,
                depth = std::max<int64_t>(1, p.n * p.l);
  const auto columns = static_cast<double>(all), length = static_cast<double>(p.l);
  const auto rows = static_cast<double>(ci > 4 ? round_up(ci, kRows) : ci > 2 ? 4 : ci);
  const double whole = static_cast<double>(round_up<int64_t>(all, 16)) / columns;
  const auto chunk = static_cast<double>(depth <= kMostDepth ? depth : 256);
  const CopyCycles copy = copy_cycles(p);
  return whole * (copy.element + 0.0333 * rows) + 0.74 * static_cast<double>(ci) / columns +
         0.56 * rows / chunk + copy.row / (static_cast<double>(p.k) * length) +
         3.6 * static_cast<double>(ci) / (columns * length);  // rows of x
}

double cycles_of_dots(const core::Problem& p) {
  const int64_t ci = p.cin_per_group(), all = p.cout_per_group() * p.k;
  const auto columns = static_cast<double>(all), k = static_cast<double>(p.k),
             length = static_cast<double>(p.l);
  const auto rows = static_cast<double>(ci > 2 ? round_up<int64_t>(ci, 4) : ci);
  const double whole = static_cast<double>(round_up(all, weight::kTileColumns)) / columns;
  const auto lines = static_cast<double>(p.k > strided::kMaxTapBlock ? p.k : std::min(p.stride, p.k));
  const auto chunk = static_cast<double>(std::clamp<int64_t>(
      p.n * p.l, 1, lines <= weight::kLinesOfLongChunk ? weight::kLongChunk : weight::kChunk));
  const int64_t reach = (p.k - 1) * p.dilation / p.stride, used = round_up<int64_t>(p.l, 16);
  // Of short samples, passing over the gaps gains little.
  const bool passed = used >= 64 && 2 * (used + reach) <= weight::kChunk;
  const auto multiplied = static_cast<double>(passed ? std::min(used, p.l + reach) : p.l + reach);
  const double gap = p.n > 1 ? multiplied / length : 1;
  return gap * whole * (0.05 * rows + 0.036) + 10 * rows * whole / chunk +
         (p.stride > 1 ? 0.38 * lines : 0.22) / k + 0.035 * static_cast<double>(ci) / columns +
         17 * lines / (k * length) +
         7 * static_cast<double>(ci) / (columns * length);  // the last two: rows of dy and of x
}

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  if (plan::Support takes = supports_tiles(p, core::Operation::weight); !takes.ok) return takes;
  if (options.force_kernel == kEntry.name) return plan::Support::yes();
  // The model was fitted on a Xeon; compared with cpu.weight, cpu.outer is slower on a Zen 5. There, with
  // this factor 155 drawn layers take 1.009 times as long as with the better kernel (96% within 10%), without
  // it 1.016 (93%).
  constexpr double kOuter = 1.08;
  if (kOuter * cycles(p) > cycles_of_dots(p))
    return plan::Support::no("too few ci to make up for the copies of dy");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {.name = "cpu.outer",
                                  .summary = "weight gradient: a matrix product, vectors along (co, k)",
                                  .device = core::DeviceKind::cpu,
                                  .supports = supports,
                                  .make = make_kernel<OuterKernel>,
                                  .y_steps = true,
                                  .strided_bias = true};

}  // namespace tconv::cpu::outer
