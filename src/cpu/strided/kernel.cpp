#include <atomic>

#include "core/polyphase.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/common/workspace.hpp"
#include "cpu/strided/contract.hpp"

namespace tconv::cpu::strided {
namespace {

constexpr int64_t kManyPanels = 4;

class StridedKernel final : public plan::Kernel {
 public:
  StridedKernel(const core::Problem& problem, const core::DeviceInfo& device, int threads)
      : job_(make_job(problem, threads, device.vector_bytes)),
        element_(accumulator_size(problem.dtype)),
        workspace_(job_.scratch_elements() * element_, threads) {}

  std::size_t packed_bytes() const override {
    return sizeof(PackedHeader) + static_cast<std::size_t>(packed_elements(job_)) * element_;
  }
  std::string pack_key() const override {
    const core::Problem& p = job_.problem;
    return std::string("cpu.strided.1 ") + name_of(p.dtype) + " g" + std::to_string(p.groups) + " ci" +
           std::to_string(p.cin) + " co" + std::to_string(p.cout) + " k" + std::to_string(p.k);
  }
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::size_t table_bytes() const override { return job_.split.table_bytes(); }
  std::string describe() const override { return text(job_); }

  core::Status pack(const void* weight, void* packed, const plan::RunContext& context) const override {
    PackedHeader& header = *static_cast<PackedHeader*>(packed);
    header = {};
    void* elements = static_cast<std::byte*>(packed) + sizeof(PackedHeader);
    context.executor.run(job_.problem.groups * job_.config.blocks, [&](int64_t index, int32_t) {
      if (!pack_block(job_, index, weight, elements)) return;
      std::atomic_ref<int32_t>(header.special).store(1, std::memory_order_relaxed);
    });
    return {};
  }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const auto* packed = static_cast<const std::byte*>(operands.weight);
    const Weights weights{packed + sizeof(PackedHeader)};
    compute_all(operands, weights, context);
    finish(operands, weights, reinterpret_cast<const PackedHeader*>(packed)->special != 0, context);
    return {};
  }

  // Each task packs the raw weights that it reads. Packing all of them first pays if several panels read each
  // one: 883 -> 441 K3 s2 L 8939 takes 57 ms then, and 60 packed by tasks; 196 -> 392 K37 s6 with three
  // panels 14.6 and 14.2.
  bool reads_raw() const override {
    const Config& c = job_.config;
    const int64_t columns = job_.split.tiled ? c.strip : c.panel_columns;
    return core::ceil_div(job_.split.columns, columns) < kManyPanels;
  }
  core::Status run_raw(const plan::Operands& operands, const plan::RunContext& context) const override {
    std::atomic<bool> special = false;
    const Weights weights{nullptr, operands.weight, &special};
    compute_all(operands, weights, context);
    finish(operands, weights, special, context);
    return {};
  }

 private:
  void compute_all(const plan::Operands& operands, const Weights& weights,
                   const plan::RunContext& context) const {
    workspace_.run(context, task_count(job_), [&](int64_t index, std::byte* own) {
      compute(job_, task_at(job_, index), operands, weights, own);
    });
  }
  void finish(const plan::Operands& operands, const Weights& weights, bool special,
              const plan::RunContext& context) const {
    if (special) repair_ends(job_, operands, weights, context.executor);
    if (job_.problem.has_bias) store_bias_alone(job_.problem, operands, context.executor);
  }

  Job job_;
  std::size_t element_;
  Workspace workspace_;
};

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions&) {
  if (plan::Support takes = supports_tiles(p, core::Operation::strided); !takes.ok) return takes;
  if (p.k > kMostTaps) return plan::Support::no("more than 65536 taps");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {
    .name = "cpu.strided",
    .summary = "input gradient and Conv1d: an implicit matrix product over split rows",
    .device = core::DeviceKind::cpu,
    .supports = supports,
    .make = make_kernel<StridedKernel>,
    .y_steps = true,
    .strided_bias = true};

}  // namespace tconv::cpu::strided
