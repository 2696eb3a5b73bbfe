#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/common/workspace.hpp"
#include "cpu/narrow/contract.hpp"

namespace tconv::cpu::narrow {
namespace {

using core::Problem;

class NarrowKernel final : public plan::Kernel {
 public:
  NarrowKernel(const Problem& problem, int threads)
      : job_(job_of(problem)),
        weights_(round_up<std::size_t>(job_.weight_bytes(), 64)),
        workspace_(job_.scratch_bytes(), threads) {}

  std::size_t packed_bytes() const override {
    return sizeof(PackedHeader) + weights_ + raw_bytes(job_.problem);
  }
  std::string pack_key() const override {
    const Problem& p = job_.problem;
    const auto number = [](int64_t v) { return std::to_string(v); };
    return std::string("cpu.narrow.2 ") + name_of(p.dtype) + " g" + number(p.groups) + " ci" +
           number(p.cin_per_group()) + " co" + number(p.cout_per_group()) + " k" + number(p.k) + " s" +
           number(p.stride) + " d" + number(p.dilation);
  }
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::size_t table_bytes() const override { return job_.table_bytes(); }
  std::string describe() const override {
    return job_.config.text() + ", " + std::to_string(job_.row_count()) + " rows in " +
           std::to_string(job_.blocks.size()) + " blocks";
  }

  core::Status pack(const void* weight, void* packed, const plan::RunContext&) const override {
    auto* to = static_cast<std::byte*>(packed);
    const bool finite = reorder_weights(job_, weight, to + sizeof(PackedHeader));
    new (packed) PackedHeader{finite ? 0 : 1};
    if (!finite) std::memcpy(to + sizeof(PackedHeader) + weights_, weight, raw_bytes(job_.problem));
    return {};
  }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const auto& header = *static_cast<const PackedHeader*>(operands.weight);
    workspace_.run(context, job_.tasks(),
                   [&](int64_t task, std::byte* own) { run_task(job_, operands, header, task, own); });
    if (header.special != 0) {
      plan::Operands raw = operands;
      raw.weight = static_cast<const std::byte*>(operands.weight) + sizeof(PackedHeader) + weights_;
      repair_ends(job_.problem, job_.ends, raw, context.executor);
    }
    store_bias_alone(job_.problem, job_.ends, operands, context.executor);
    return {};
  }

 private:
  static std::size_t raw_bytes(const Problem& p) {
    return static_cast<std::size_t>(p.weight_elements()) * size_of(p.dtype);
  }

  Job job_;
  std::size_t weights_;  // bytes
  Workspace workspace_;
};

plan::Support valid(const Problem& p) {
  if (plan::Support takes = supports_tiles(p, core::Operation::transposed); !takes.ok) return takes;
  if (core::Size(p.cout_per_group()) * p.stride > 256)
    return plan::Support::no("more than 256 rows (channel, residue)");
  // The packed layout has every residue, whatever l is.
  if (p.lout() < p.stride) return plan::Support::no("fewer outputs than the stride");
  if (p.weight_elements() > 1 << 18) return plan::Support::no("more than 2^18 weights");
  const int64_t reach = (p.k - 1) * p.dilation / p.stride;
  if (reach > 65536 || core::Size(reach + 512) * p.cin_per_group() > 1 << 19) {
    return plan::Support::no("a tile of x and its halo take more than 2^19 elements");
  }
  return plan::Support::yes();
}

// Whether cpu.dense takes less time: its copy of x pays if many rows read each element of it, and it
// interleaves wide strides faster. Sizes are those of a sample, so that the choice, and with it the bits, do
// not depend on N. Of 197 drawn layers of up to 256 rows that the rule was not made from, it is 1% behind the
// better kernel in the geometric mean, and 64 rows as the limit 17% (Xeon with AVX-512; with AVX2 forced 114
// layers, 2% and 9%).
bool is_matrix_product(const Problem& p) {
  const int64_t rows = p.cout_per_group() * p.stride, depth = p.cin_per_group() * core::Polyphase(p).taps;
  // Few positions do not pay for the order of this kernel's weights: 128 -> 4, K41, L 159 120 us,
  // cpu.dense 60.
  if (rows >= 4 && depth >= 160 && p.l <= 512) return true;
  if (p.stride >= 6) return true;
  if (p.stride >= 4) return p.cout_per_group() > 1;
  if (rows <= 10) return false;
  if (p.stride > 1 || rows > 64) return true;
  const bool in_l2 = p.cin_per_group() * p.l + p.cout_per_group() * p.lout() <= 1 << 18;
  return in_l2 ? depth >= 48 : depth * rows >= 4096;
}

plan::Support supports(const Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  const plan::Support support = valid(p);
  if (!support.ok || options.force_kernel == kEntry.name) return support;
  if (is_matrix_product(p)) {
    return plan::Support::no("enough rows (channel, residue) for a matrix product");
  }
  if ((p.lout() - 1) / p.stride < 64) return plan::Support::no("fewer than 64 positions");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {"cpu.narrow", "few rows or few channels in, bound by memory",
                                  core::DeviceKind::cpu, supports, make_kernel<NarrowKernel>};

}  // namespace tconv::cpu::narrow
