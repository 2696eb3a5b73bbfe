#include "cpu/dense/kernel.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/common/workspace.hpp"
#include "cpu/dense/compute.hpp"
#include "cpu/dense/pack.hpp"
#include "cpu/dense/plan.hpp"
#include "cpu/dense/repair.hpp"

namespace tconv::cpu::dense {
namespace {

using core::DType;

using Compute = void (*)(const Job&, const Task&, const Task*, const Buffers&, void*);

Compute compute_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return compute_f32;
    case DType::f64:
      return compute_f64;
    case DType::f16:
      return compute_f16;
    case DType::bf16:
      return compute_bf16;
  }
  return nullptr;
}

class DenseKernel final : public plan::Kernel {
 public:
  DenseKernel(const core::Problem& problem, const core::DeviceInfo& device, int threads)
      : threads_(threads), element_(accumulator_size(problem.dtype)) {
    job_.geometry = make_geometry(problem);
    job_.config = make_config(job_.geometry, threads_, device.vector_bytes);
    job_.scratch = scratch_of(job_.geometry, job_.config);
    raw_job_ = job_;
    raw_job_.config = make_raw_config(job_.geometry, job_.config, threads_, device.vector_bytes);
    raw_job_.scratch = scratch_of(raw_job_.geometry, raw_job_.config);
  }

  std::size_t packed_bytes() const override {
    const Geometry& g = job_.geometry;
    const int64_t elements = g.groups * packed_group_elements(g, job_.config);
    return sizeof(PackedHeader) + static_cast<std::size_t>(elements) * element_;
  }
  std::string pack_key() const override {
    const Geometry& g = job_.geometry;
    std::string key = "cpu.dense.1";
    key += std::string(" ") + name_of(g.dtype) + " g" + std::to_string(g.groups) + " ci" +
           std::to_string(g.cin) + " co" + std::to_string(g.cout) + " k" + std::to_string(g.k) + " step" +
           std::to_string(g.tap_step) + " cb" + std::to_string(job_.config.cout_block);
    return key;
  }
  std::size_t workspace_bytes() const override { return workspace(job_).bytes(); }
  bool reads_raw() const override { return raw_job_.config.chunk_units > 0; }
  std::size_t raw_workspace_bytes() const override { return workspace(raw_job_).bytes(); }
  std::string describe() const override {
    std::string words = text(job_.geometry, job_.config);
    if (!reads_raw()) return words;
    const Config& raw = raw_job_.config;
    return words + "; raw weights packed by " + std::to_string(raw.chunk_units) + " units x " +
           std::to_string(raw.cin_block) + " ci";
  }

  core::Status pack(const void* weight, void* packed, const plan::RunContext& context) const override {
    dense::pack(job_.geometry, job_.config, weight, packed, context.executor);
    return {};
  }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const auto* packed = static_cast<const std::byte*>(operands.weight);
    const Buffers buffers{operands.x, packed + sizeof(PackedHeader), operands.bias, operands.output};
    compute_all(job_, buffers, context);
    finish(job_, buffers, reinterpret_cast<const PackedHeader*>(packed)->special != 0, context);
    return {};
  }

  core::Status run_raw(const plan::Operands& operands, const plan::RunContext& context) const override {
    std::atomic<bool> special = false;
    const Buffers buffers{operands.x, operands.weight, operands.bias, operands.output, &special};
    compute_all(raw_job_, buffers, context);
    finish(raw_job_, buffers, special, context);
    return {};
  }

 private:
  Workspace workspace(const Job& job) const {
    return {static_cast<std::size_t>(job.scratch.elements()) * element_, threads_};
  }

  void compute_all(const Job& job, const Buffers& buffers, const plan::RunContext& context) const {
    fill_untouched(buffers, context.executor);
    const Compute compute = compute_of(job.geometry.dtype);
    const int64_t tasks = task_count(job.geometry, job.config);
    workspace(job).run(context, tasks, [&](int64_t index, std::byte* own) {
      const Task task = task_at(job.config, index);
      const int64_t later = index + context.executor.threads;
      const Task next = task_at(job.config, std::min(later, tasks - 1));
      const bool other =
          later < tasks && (next.column_begin != task.column_begin || next.group != task.group);
      compute(job, task, other ? &next : nullptr, buffers, own);
    });
  }

  static void finish(const Job& job, const Buffers& buffers, bool special, const plan::RunContext& context) {
    if (special) repair_ends(job.geometry, job.config, buffers, context.executor);
    store_bias_alone(job.geometry, buffers, context.executor);
  }

  // If units are not contiguous runs, outputs that no tap reaches get their bias first.
  void fill_untouched(const Buffers& b, const core::Executor& executor) const {
    const Geometry& g = job_.geometry;
    if (job_.config.whole || g.residues == g.stride) return;
    const int64_t channels = g.groups * g.cout;
    with_storage(g.dtype, [&](auto tag) {
      using T = decltype(tag);
      executor.run(g.n * channels, [&](int64_t row, int32_t) {
        const T* bias = static_cast<const T*>(b.bias);
        const T value = round_to<T>(g.has_bias ? widen(bias[row % channels]) : Accumulator<T>{0});
        std::fill_n(static_cast<T*>(b.y) + row * g.lout, g.lout, value);
      });
    });
  }

  int threads_;
  std::size_t element_;
  Job job_, raw_job_;
};

plan::Support entry_supports(const core::Problem& problem, const core::DeviceInfo&,
                             const plan::PlanOptions&) {
  return supports(problem);
}

}  // namespace

const plan::KernelEntry kEntry = {"cpu.dense", "polyphase implicit GEMM, nearly every transposed convolution",
                                  core::DeviceKind::cpu, entry_supports, make_kernel<DenseKernel>};

}  // namespace tconv::cpu::dense
