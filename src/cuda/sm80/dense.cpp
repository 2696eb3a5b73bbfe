#include "cuda/sm80/dense.hpp"

#include <numeric>

#include "core/polyphase.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/sm80/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

class Sm80Dense final : public plan::Kernel {
 public:
  Sm80Dense(const Problem& problem, const core::DeviceInfo& device, const Sm80Plan& plan)
      : problem_(problem), device_(device), plan_(plan), functions_(sm80_functions(plan_.mode)) {}

  std::size_t packed_bytes() const override { return static_cast<std::size_t>(plan_.packed_bytes); }

  std::string pack_key() const override {
    return std::string(kSm80Dense.name) + " " + name_of(problem_.dtype) + " " + name_of(problem_.precision) +
           " ci" + std::to_string(problem_.cin) + " co" + std::to_string(problem_.cout) + " k" +
           std::to_string(problem_.k) + " g" + std::to_string(problem_.groups) + " phases" +
           std::to_string(plan_.phases.count) + "," + std::to_string(plan_.phases.tap_stride);
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(plan_.partial_bytes); }
  std::string describe() const override { return cuda::describe(plan_, problem_); }
  double predicted_ms() const override { return plan_.cost.total; }

  Status pack(const void* weight, void* packed, const plan::RunContext& context) const override {
    const Launcher launcher(kSm80Dense.name, problem_, device_, context);
    const Sm80Params& k = plan_.params;
    const int64_t units = int64_t{k.groups} * k.row_tiles * k.slabs * k.taps * kSm80Steps * kSm80RowTileUnits;
    unsigned char* marks = static_cast<unsigned char*>(packed) + plan_.marks_at;
    if (plan_.mode == Sm80Mode::ieee) {
      Status status = launcher.zero(marks, static_cast<std::size_t>(plan_.packed_bytes - plan_.marks_at));
      if (!status.ok()) return status;
    }
    Sm80PackParams params{};
    params.weight = weight;
    params.packed = packed;
    params.marks = marks;
    params.units = units;
    params.cin_group = k.cin_group;
    params.cout_group = k.cout_group;
    params.k = static_cast<int>(problem_.k);
    params.phases = k.phases;
    params.taps = k.taps;
    params.tap_stride = static_cast<int>(plan_.phases.tap_stride);
    params.slabs = k.slabs;
    params.row_tiles = k.row_tiles;
    const int64_t blocks = std::min<int64_t>(ceil_div(units, 256), 1 << 20);
    return launcher.run(functions_.pack, {blocks, 256}, params);
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm80Dense.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    Sm80Params params = plan_.params;
    params.x = operands.x;
    params.packed = operands.weight;
    params.bias = problem_.has_bias ? operands.bias : nullptr;
    params.output = params.partial ? context.workspace : operands.output;
    const auto tile = static_cast<std::size_t>(plan_.config.tile);
    status = launcher.run(functions_.tiles[tile],
                          {plan_.blocks, sm80_tiles()[tile].threads, plan_.shared_bytes}, params);
    return status.ok() && params.partial ? sum(launcher, operands, context) : status;
  }

 private:
  Status sum(const Launcher& launcher, const plan::Operands& operands,
             const plan::RunContext& context) const {
    Sm80SumParams params = sm80_sum_params(plan_, problem_);
    params.partial = context.workspace;
    params.bias = problem_.has_bias ? operands.bias : nullptr;
    params.output = operands.output;
    const int64_t chunks = params.chunks_div.value;
    return launcher.run(functions_.sum, {problem_.n * problem_.cout * chunks, kSm80SumThreads}, params);
  }

  Problem problem_;
  core::DeviceInfo device_;
  Sm80Plan plan_;
  Sm80Functions functions_;
};

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (p.operation != core::Operation::forward) {
    return Support::no(std::string("operation ") + name_of(p.operation) + ": this kernel is for fwd");
  }
  if (device.sm < 80) return Support::no("compute capability below 8.0: no tf32 or bfloat16 tensor cores");
  if (!p.positions_contiguous()) return Support::no("x's positions do not lie side by side");
  // hi*hi + hi*lo + lo*hi is a few units of 2^-24 off a product: within the promise of a sum of 16 terms or
  // more, not of a product alone.
  if (sm80_mode(p) == Sm80Mode::ieee && p.cin_per_group() < 16) {
    return Support::no(
        "ieee float32 with fewer than 16 channels a group: a split product would be the error");
  }
  Support counts = sm80_countable(p);
  if (!counts.ok || options.force_kernel == kSm80Dense.name) return counts;
  if (p.cin_per_group() < 16 || p.cout_per_group() < 16) {
    return Support::no("fewer than 16 channels a group: tensor cores would idle");
  }
  // On an H200, n64 ci128 co128 l65536 k3: 11.1 ms in ieee against 10.7 of cuda.simt.dense (tf32: 4.6 against
  // 10.7); n32 ci32 co64 l131072 k5 d3: 3.05 against 2.69 (tf32: 1.39 against 2.70). f64 is not measured.
  if (sm80_mode(p) == Sm80Mode::ieee || sm80_mode(p) == Sm80Mode::f64) {
    return Support::no(std::string(name_of(p.dtype)) + " " + name_of(p.precision) +
                       ": not faster here than fused multiply-adds; tf32, f16 and bf16 are");
  }
  return Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions& options) {
  return std::make_unique<Sm80Dense>(problem, device, sm80_plan(problem, device, options.batch_invariant));
}

}  // namespace

Sm80Functions sm80_functions(Sm80Mode mode) {
  switch (mode) {
    case Sm80Mode::ieee:
      return sm80_ieee();
    case Sm80Mode::f16:
      return sm80_f16();
    case Sm80Mode::bf16:
      return sm80_bf16();
    case Sm80Mode::f64:
      return sm80_f64();
    case Sm80Mode::tf32:
      break;
  }
  return sm80_tf32();
}

Support sm80_countable(const Problem& p) {
  constexpr int64_t kCount = int64_t{1} << 30;
  const int64_t phases = std::min(p.k, p.stride / std::gcd(p.stride, p.dilation));
  if (p.stride > kSm80MaxStride) return Support::no("stride above " + std::to_string(kSm80MaxStride));
  if ((phases - 1) * p.dilation > 1 << 15)
    return Support::no("dilation skews the phases beyond 2^15 outputs");
  if (p.k >= kCount / p.dilation || p.lout() >= kCount - p.padding || p.l >= kCount / 2) {
    return Support::no("a row's positions reach 2^30");
  }
  const int64_t columns = p.lout() / p.stride + p.dilation * (p.k + 1) / p.stride + 512;
  if (p.n >= kCount / columns || p.n * p.cout >= kCount / ceil_div(p.lout() + 1, kSm80SumChunk)) {
    return Support::no("samples times positions reach 2^30");
  }
  const int64_t rows = (p.cout_per_group() + 16) * phases, depth = (p.cin_per_group() + 32) * p.k;
  if (rows >= 1 << 24 || depth >= 1 << 26 || p.groups >= (1 << 20) / ceil_div(rows, 64)) {
    return Support::no("channels times k or groups reach 2^20");
  }
  return Support::yes();
}

std::unique_ptr<const plan::Kernel> sm80_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                const Sm80Config& config) {
  return std::make_unique<Sm80Dense>(problem, device, sm80_plan_of(problem, device, config));
}

const plan::KernelEntry kSm80Dense = {"cuda.sm80.dense", "implicit matrix product on tensor cores (mma.sync)",
                                      core::DeviceKind::cuda, supports, make};

}  // namespace tconv::cuda
