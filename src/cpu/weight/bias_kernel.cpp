#include <algorithm>
#include <array>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/weight/bias.hpp"
#include "cpu/weight/contract.hpp"
#include "cpu/weight/totals.hpp"

namespace tconv::cpu::weight {
namespace {

using core::ceil_div;

constexpr int64_t kTasks = 32;  // slabs make up for few channels

class BiasKernel final : public plan::Kernel {
 public:
  explicit BiasKernel(const core::Problem& p) : problem_(p), lout_(p.lout()), steps_(p.y_steps()) {
    chunks_ = p.n * row_chunks();
    const int64_t slabs = std::clamp<int64_t>(kTasks / p.cout, 1, std::max<int64_t>(1, chunks_));
    chunks_per_slab_ = ceil_div(std::max<int64_t>(1, chunks_), slabs);
    slabs_ = ceil_div(std::max<int64_t>(1, chunks_), chunks_per_slab_);
  }

  std::size_t workspace_bytes() const override {
    return round_up<std::size_t>(static_cast<std::size_t>(slabs_ * problem_.cout) * sizeof(double), 256);
  }
  std::string describe() const override {
    return std::to_string(slabs_) + " slabs of " + std::to_string(chunks_per_slab_) + " chunks of " +
           std::to_string(kBiasChunk) + " positions";
  }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    auto* partials = reinterpret_cast<double*>(context.workspace);
    context.executor.run(slabs_ * problem_.cout, [&](int64_t index, int32_t) {
      partials[index] = slab_sum(operands.grad_output, index % problem_.cout, index / problem_.cout);
    });
    add_slabs(problem_.dtype, partials, slabs_, problem_.cout, operands.output, context.executor);
    return {};
  }

 private:
  int64_t row_chunks() const { return ceil_div(lout_, kBiasChunk); }

  double slab_sum(const void* dy, int64_t co, int64_t slab) const {
    double sum = 0;
    const int64_t end = std::min(chunks_, (slab + 1) * chunks_per_slab_);
    for (int64_t chunk = slab * chunks_per_slab_; chunk < end; ++chunk) {
      const int64_t n = chunk / row_chunks(), o = chunk % row_chunks() * kBiasChunk;
      sum += sum_of(problem_.dtype, dy, n * steps_[0] + co * steps_[1] + o * steps_[2], steps_[2],
                    std::min(kBiasChunk, lout_ - o));
    }
    return sum;
  }

  core::Problem problem_;
  int64_t lout_;
  std::array<int64_t, 3> steps_;  // of dy
  int64_t chunks_ = 0, chunks_per_slab_ = 1, slabs_ = 1;
};

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions&) {
  return supports_tiles(p, core::Operation::bias);
}

std::unique_ptr<const plan::Kernel> make(const core::Problem& p, const core::DeviceInfo&,
                                         const plan::PlanOptions&) {
  return std::make_unique<BiasKernel>(p);
}

}  // namespace

const plan::KernelEntry kBiasEntry = {.name = "cpu.bias",
                                      .summary = "bias gradient: sums of rows",
                                      .device = core::DeviceKind::cpu,
                                      .supports = supports,
                                      .make = make,
                                      .y_steps = true,
                                      .strided_bias = true};

}  // namespace tconv::cpu::weight
