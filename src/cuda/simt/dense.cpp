#include "cuda/simt/dense.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/host/by_dtype.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/simt/dense_plan.hpp"
#include "cuda/simt/problem_class.hpp"

namespace tconv::cuda {
namespace {

using core::DType;
using core::Problem;
using core::Status;

constexpr int kThreads = 256;  // in the helper kernels
int64_t blocks_for(int64_t elements) {
  return std::min<int64_t>(core::ceil_div(elements, kThreads), 1 << 16);
}

class DenseKernel final : public plan::Kernel {
 public:
  DenseKernel(const Problem& problem, const core::DeviceInfo& device, bool batch_invariant)
      : problem_(problem),
        device_(device),
        plan_(plan_dense(problem, device, batch_invariant)),
        functions_(by_dtype(problem.dtype, dense_f32, dense_f64, dense_f16, dense_bf16)()) {}

  std::size_t packed_bytes() const override {
    return static_cast<std::size_t>(plan_.packed_elements) * size_of(problem_.dtype);
  }

  std::string pack_key() const override {
    return std::string(kSimtDense.name) + " " + name_of(problem_.dtype) + " ci" +
           std::to_string(problem_.cin) + " co" + std::to_string(problem_.cout) + " k" +
           std::to_string(problem_.k) + " g" + std::to_string(problem_.groups) + " phases" +
           std::to_string(plan_.phases.count) + "," + std::to_string(plan_.phases.tap_stride);
  }

  std::size_t workspace_bytes() const override {
    if (plan_.splits == 1) return 0;
    const int64_t element = problem_.dtype == DType::f64 ? 8 : 4;
    return static_cast<std::size_t>(plan_.splits * problem_.y_elements() * element);
  }

  std::string describe() const override { return cuda::describe(plan_, problem_); }
  std::vector<plan::StageLine> stages() const override { return cuda::stages(plan_, problem_); }
  std::string where(int64_t element) const override { return cuda::where(plan_, problem_, element); }

  Status pack(const void* weight, void* packed, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtDense.name, problem_, device_, context);
    for (const DenseClass& k : plan_.classes) {
      const DensePackParams params{weight,
                                   packed,
                                   k,
                                   plan_.phases.tap_stride,
                                   problem_.cin,
                                   problem_.cin_per_group(),
                                   problem_.cout_per_group(),
                                   problem_.k};
      if (k.phases == 0) continue;
      const int64_t blocks = std::min<int64_t>(problem_.cin * core::ceil_div(k.pitch, kThreads), 1 << 20);
      Status status = launcher.run(functions_.pack, {blocks, kThreads}, params);
      if (!status.ok()) return status;
    }
    return {};
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtDense.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (status.ok() && plan_.phases.gaps) status = fill(launcher, operands);
    if (status.ok()) status = multiply(launcher, operands, context);
    if (status.ok() && plan_.splits > 1) status = sum(launcher, operands, context);
    if (!status.ok()) return status;
    const BiasStored stored = plan_.splits > 1 ? BiasStored::none : BiasStored::of_residues;
    return store_bias_alone(launcher, problem_, operands, stored);
  }

 private:
  Status fill(const Launcher& launcher, const plan::Operands& operands) const {
    const int64_t elements = problem_.y_elements();
    const DenseFillParams params{problem_.has_bias ? operands.bias : nullptr, operands.output, elements,
                                 problem_.lout(), problem_.cout};
    return launcher.run(functions_.fill, {blocks_for(elements), kThreads}, params);
  }

  Status multiply(const Launcher& launcher, const plan::Operands& operands,
                  const plan::RunContext& context) const {
    if (plan_.rows == 0) return {};  // no output has a tap, so the fill has stored all of them
    DenseParams params = shape();
    const bool split = plan_.splits > 1;
    params.x = operands.x;
    params.packed = operands.weight;
    params.bias = problem_.has_bias && !split ? operands.bias : nullptr;
    params.output = split ? context.workspace : operands.output;
    const auto tile = static_cast<std::size_t>(plan_.tile);
    const int threads = dense_tiles(problem_.dtype)[tile].threads();
    return launcher.run(functions_.tiles[tile], {plan_.blocks(problem_), threads}, params);
  }

  Status sum(const Launcher& launcher, const plan::Operands& operands,
             const plan::RunContext& context) const {
    return sum_partials(launcher, problem_.dtype, Parts::accumulator,
                        flat_sum_params(problem_, operands, context.workspace, plan_.splits));
  }

  DenseParams shape() const {
    const auto steps = problem_.x_steps();
    const Phases& f = plan_.phases;
    DenseParams p{};
    p.phases = f;
    if (f.interleaved) p.stride = Divisor::of(static_cast<uint32_t>(problem_.stride));
    p.rows = plan_.rows;
    p.cin_group = static_cast<int>(problem_.cin_per_group());
    p.cout_group = problem_.cout_per_group();
    p.cout = problem_.cout;
    p.l = static_cast<int>(problem_.l);
    p.lout = problem_.lout();
    for (std::size_t i = 0; i < 3; ++i) p.x_step[i] = steps[i];
    p.splits = plan_.splits;
    p.split_size = problem_.y_elements();
    for (std::size_t i = 0; i < 2; ++i) p.classes[i] = plan_.classes[i];
    p.row_tiles = static_cast<uint32_t>(plan_.row_tiles);
    p.column_tiles = static_cast<uint32_t>(plan_.column_tiles);
    p.rows_first = plan_.rows_first;
    return p;
  }

  Problem problem_;
  core::DeviceInfo device_;
  DensePlan plan_;
  DenseFunctions functions_;
};

plan::Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = simt::simt_refusal(p, device, core::Operation::transposed); !words.empty()) {
    return plan::Support::no(std::move(words));
  }
  // In the kernel, counts within a group, positions of a sample and blocks have 32 bits; addresses have 64.
  constexpr int64_t kCount = int64_t{1} << 29;
  if (p.k >= kCount || p.cin_per_group() >= kCount / p.k || p.cout_per_group() >= kCount / p.k) {
    return plan::Support::no("a group's channels times k reach 2^29");
  }
  if (p.l >= kCount || p.dilation >= kCount / p.k) return plan::Support::no("positions reach 2^29");
  if (p.groups >= kCount || p.y_elements() >= kCount << 7)
    return plan::Support::no("y reaches 2^36 elements");
  if (simt::mostly_cut(p)) return plan::Support::no("padding cuts nearly all outputs of a stride");
  const Phases f = phases_of(p);
  if (core::Size(f.positions) * f.count > core::Size(32) * p.lout() + (1 << 16)) {
    return plan::Support::no("padding cuts nearly all outputs of " + std::to_string(f.count) + " phases");
  }
  // No tile has fewer than 32 rows or columns, and no plan has more than 32 splits.
  const core::Size most =
      core::Size(p.n) * (f.positions / 32 + 1) * p.groups * (p.cout_per_group() * f.count / 32 + 1) * 32;
  if (most > kMaxBlocks &&
      (most > int64_t{1} << 60 || plan_dense(p, device, options.batch_invariant).blocks(p) > kMaxBlocks)) {
    return plan::Support::no("more tiles than a grid has blocks");
  }
  // Steps of x from one tap's inputs to another's.
  if (!(core::Size(p.dilation) * p.k * p.x_steps()[2] * 4).fits()) {
    return plan::Support::no("taps lie 2^61 elements of x apart");
  }
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions& options) {
  return std::make_unique<DenseKernel>(problem, device, options.batch_invariant);
}

}  // namespace

const plan::KernelEntry kSimtDense = {"cuda.simt.dense", "implicit matrix product in fused multiply-adds",
                                      core::DeviceKind::cuda, supports, make};

}  // namespace tconv::cuda
