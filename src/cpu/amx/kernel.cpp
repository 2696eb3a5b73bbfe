#include "cpu/amx/contract.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/workspace.hpp"

namespace tconv::cpu::amx {
namespace {

class AmxKernel final : public plan::Kernel {
 public:
  AmxKernel(const core::Problem& problem, int threads)
      : job_(make_job(problem, threads)),
        threads_(threads),
        workspace_(static_cast<std::size_t>(job_.scratch_elements()) * sizeof(float), threads) {}

  std::size_t packed_bytes() const override {
    return sizeof(PackedHeader) + static_cast<std::size_t>(job_.packed_elements()) * sizeof(uint16_t);
  }
  std::string pack_key() const override {
    const core::Problem& p = job_.problem;
    const auto number = [](int64_t v) { return std::to_string(v); };
    return std::string("cpu.amx.1 ") + (job_.transposed() ? "transposed" : "strided") + " g" +
           number(p.groups) + " ci" + number(p.cin) + " co" + number(p.cout) + " k" + number(p.k) + " step" +
           number(job_.out.tap_step) + " unit" + number(job_.config.channels);
  }
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::size_t table_bytes() const override {
    return job_.places.capacity() * sizeof(WeightPlace) + job_.split.table_bytes();
  }
  std::string describe() const override { return text(job_); }

  core::Status pack(const void* weight, void* packed, const plan::RunContext& context) const override {
    *static_cast<PackedHeader*>(packed) = {};
    context.executor.run(pack_tasks(job_, threads_),
                         [&](int64_t index, int32_t) { pack_task(job_, threads_, index, weight, packed); });
    return {};
  }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const auto& header = *static_cast<const PackedHeader*>(operands.weight);
    Buffers buffers;
    buffers.in = job_.transposed() ? operands.x : operands.grad_output;
    buffers.weights = reinterpret_cast<const uint16_t*>(&header + 1);
    buffers.least_weight = header.least;
    buffers.bias = job_.out.has_bias ? operands.bias : nullptr;
    buffers.out = operands.output;
    workspace_.run(context, task_count(job_), [&](int64_t index, std::byte* own) {
      compute(job_, task_at(job_, index), buffers, reinterpret_cast<float*>(own));
    });
    if (header.special != 0) repair_ends(job_, buffers, context.executor);
    store_bias_alone(job_, buffers, context.executor);
    return {};
  }

 private:
  Job job_;
  int threads_;
  Workspace workspace_;
};

plan::Support supports(const core::Problem& p, const core::DeviceInfo& device,
                       const plan::PlanOptions& options) {
  const bool forced = options.force_kernel == "cpu.amx";
  if (p.dtype != core::DType::bf16) return plan::Support::no("dtype is not bf16");
  if (!forced && !device.tiles)
    return plan::Support::no("this machine, or the SIMD target in use, has no AMX");
  if (std::string reason = refusal(p); !reason.empty()) return plan::Support::no(std::move(reason));
  if (!forced && !worth_it(p)) return plan::Support::no("too little of its tiles would be used");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {.name = "cpu.amx",
                                  .summary = "bf16 in AMX tiles: transposed and strided products",
                                  .device = core::DeviceKind::cpu,
                                  .supports = supports,
                                  .make = make_kernel<AmxKernel>,
                                  .y_steps = true,
                                  .strided_bias = true};

}  // namespace tconv::cpu::amx
