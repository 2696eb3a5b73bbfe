#include "cuda/simt/plain.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/by_dtype.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "cuda/plan/report.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Operation;
using core::Problem;
using core::Status;

PlainParams shape_of(const Problem& p) {
  PlainParams s{};
  s.n = p.n, s.cin = p.cin, s.cout = p.cout, s.l = p.l, s.lout = p.lout(), s.k = p.k, s.groups = p.groups;
  s.cin_group = p.cin_per_group(), s.cout_group = p.cout_per_group();
  s.stride = p.stride, s.padding = p.padding, s.dilation = p.dilation;
  const core::Polyphase form(p);
  s.gcd = form.gcd, s.tap_stride = form.tap_stride, s.inverse = form.inverse;
  const auto x_steps = p.x_steps(), y_steps = p.y_steps();
  for (std::size_t i = 0; i < 3; ++i) s.x_step[i] = x_steps[i], s.y_step[i] = y_steps[i];
  s.elements = p.output_elements();
  return s;
}

class PlainKernel final : public plan::Kernel {
 public:
  PlainKernel(const Problem& problem, const core::DeviceInfo& device)
      : problem_(problem),
        device_(device),
        shape_(shape_of(problem)),
        functions_(by_dtype(problem.dtype, plain_f32, plain_f64, plain_f16, plain_bf16)()) {
    split();
  }

  std::size_t workspace_bytes() const override {
    return shape_.splits > 1 ? static_cast<std::size_t>(shape_.splits * shape_.elements) * sizeof(double) : 0;
  }

  std::string describe() const override {
    const Operation o = problem_.operation;
    std::string out = "slow path: ";
    if (o == Operation::transposed || o == Operation::strided) return out + "one thread an output element";
    out += o == Operation::weight ? "a block 4x4 channels of one tap" : "a block a channel";
    if (shape_.splits > 1) {
      out += ", positions split " + std::to_string(shape_.splits) + " ways and summed in order";
    }
    return out;
  }

  std::vector<plan::StageLine> stages() const override {
    const Operation o = problem_.operation;
    const bool sums_positions = o == Operation::weight || o == Operation::bias;
    const std::string schedule = sums_positions ? std::to_string(shape_.tiles) + " tiles x " +
                                                      std::to_string(shape_.splits) + " splits of " +
                                                      std::to_string(shape_.split_positions) + " positions"
                                                : "a thread an output";
    return {{"schedule", schedule},
            {"source", "operands as they lie, a load a product, any strides"},
            {"product", o == Operation::bias ? "sums in float64 of short runs"
                                             : "fused multiply-adds, short runs added in float64"},
            epilogue_line(problem_),
            writer_line("from registers, element by element", shape_.splits)};
  }

  std::string where(int64_t element) const override {
    const PlainParams& k = shape_;
    const std::string place = element_text(problem_, element) + "; ";
    const bool weight = problem_.operation == Operation::weight;
    if (!weight && problem_.operation != Operation::bias) {
      const int64_t threads = grid_by_element() * kPlainThreads;
      const auto thread = static_cast<int>(element % threads % kPlainThreads);
      return place + text(Holder{element % threads / kPlainThreads, thread, "sum"});
    }
    int64_t tile = element;
    std::string sum = "sum";
    if (weight) {
      const int64_t tap = element % k.k, pair = element / k.k, co = pair % k.cout_group,
                    ci = pair / k.cout_group;
      const int64_t group = ci / k.cin_group, inner = ci % k.cin_group;
      tile = group * ceil_div(k.cin_group, kPlainTile) + inner / kPlainTile;
      tile = (tile * ceil_div(k.cout_group, kPlainTile) + co / kPlainTile) * k.k + tap;
      sum = "sums[" + std::to_string(inner % kPlainTile) + "][" + std::to_string(co % kPlainTile) + "]";
    }
    return place + blocks_text(tile % grid_by_tile(), k.tiles, k.splits) + ", " + sum +
           " of all threads, added in thread 0";
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtPlain.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    PlainParams params = shape_;
    params.x = operands.x;
    params.weight = operands.weight;
    params.bias = problem_.reads_bias() ? operands.bias : nullptr;
    params.grad_output = operands.grad_output;
    params.output = operands.output;
    if (shape_.splits > 1) params.parts = reinterpret_cast<double*>(context.workspace);
    status = launch(launcher, params);
    if (!status.ok() || shape_.splits == 1) return status;
    return sum_partials(launcher, problem_.dtype, Parts::float64,
                        flat_sum_params(params.parts, params.output, params.elements, params.splits));
  }

 private:
  int64_t grid_by_element() const {
    return std::min<int64_t>(ceil_div(shape_.elements, kPlainThreads), 1 << 20);
  }
  int64_t grid_by_tile() const { return std::min<int64_t>(shape_.tiles * shape_.splits, 1 << 20); }

  Status launch(const Launcher& launcher, const PlainParams& params) const {
    const Grid by_element{grid_by_element(), kPlainThreads}, by_tile{grid_by_tile(), kPlainThreads};
    switch (problem_.operation) {
      case Operation::transposed:
        return launcher.run(functions_.transposed, by_element, params);
      case Operation::strided:
        return launcher.run(functions_.strided, by_element, params);
      case Operation::weight:
        return launcher.run(functions_.weight, by_tile, params);
      case Operation::bias:
        return launcher.run(functions_.bias, by_tile, params);
    }
    return {};
  }

  // As many parts as fill the device about four times, but at least sixteen positions a thread.
  void split() {
    const Problem& p = problem_;
    shape_.splits = 1;
    const bool weight = p.operation == Operation::weight;
    if (!weight && p.operation != Operation::bias) return;
    shape_.positions = p.lout() == 0 ? 0 : p.n * (weight ? p.l : p.lout());
    shape_.tiles = weight ? p.groups * ceil_div(p.cin_per_group(), kPlainTile) *
                                ceil_div(p.cout_per_group(), kPlainTile) * p.k
                          : p.cout;
    const int64_t wanted = ceil_div(int64_t{4} * std::max(1, device_.sm_count), shape_.tiles);
    const int64_t most = ceil_div(shape_.positions, kPlainThreads * 16);
    const int64_t splits = std::clamp<int64_t>(std::min(wanted, most), 1, 4096);
    shape_.split_positions = std::max<int64_t>(1, ceil_div(shape_.positions, splits));
    shape_.splits = std::max<int64_t>(1, ceil_div(shape_.positions, shape_.split_positions));
  }

  Problem problem_;
  core::DeviceInfo device_;
  PlainParams shape_;
  PlainFunctions functions_;
};

plan::Support supports(const Problem&, const core::DeviceInfo& device, const plan::PlanOptions&) {
  if (device.sm < 70) return plan::Support::no("compute capability below 7.0");
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions&) {
  return std::make_unique<PlainKernel>(problem, device);
}

}  // namespace

const plan::KernelEntry kSimtPlain = {.name = "cuda.simt.plain",
                                      .summary = "every operation, simply: the slow path",
                                      .device = core::DeviceKind::cuda,
                                      .supports = supports,
                                      .make = make,
                                      .y_steps = true,
                                      .strided_bias = true};

}  // namespace tconv::cuda
