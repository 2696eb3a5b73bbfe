#include "cuda/simt/gather.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/simt/problem_class.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;
using core::Status;
using plan::PlanOptions;

constexpr int kThreads = 256;

// How the work is cut; see gather.cuh.
struct GatherConfig {
  int co = 1, p = 1;     // a thread's output channels and positions
  int64_t residues = 1;  // of a block
  int64_t q_step = 1;    // positions from one of a thread's to its next
  int64_t q_first = 0, q_tiles = 1, residue_chunks = 1, co_blocks = 1;
  bool operator==(const GatherConfig&) const = default;
  int threads() const { return static_cast<int>(ceil_div(residues * q_step, 32) * 32); }
  std::string text() const {
    return "a thread " + std::to_string(p) + " positions x " + std::to_string(co) + " cout; a block " +
           std::to_string(residues) + " residues x " + std::to_string(q_step * p) + " positions";
  }
};

int64_t tiles_of(const GatherConfig& c, const Problem& p) {
  return c.q_tiles * c.residue_chunks * c.co_blocks * p.groups * p.n;
}

// A thread's place in gather_kernel, in reverse.
Holder holder_of(const GatherConfig& c, const Problem& p, const OutputPlace& at) {
  const int64_t reach = at.o + p.padding, r = reach % p.stride, q = reach / p.stride - c.q_first;
  const int64_t in_q = q % (c.q_step * c.p);
  int64_t tile = at.n * p.groups + at.group;
  tile = tile * c.co_blocks + at.inner / c.co;
  tile = tile * c.q_tiles + q / (c.q_step * c.p);
  tile = tile * c.residue_chunks + r / c.residues;
  return {tile % std::min(tiles_of(c, p), kMaxBlocks),
          static_cast<int>(in_q % c.q_step * c.residues + r % c.residues),
          "tile " + std::to_string(tile) + ", sum[" + std::to_string(in_q / c.q_step) + "][" +
              std::to_string(at.inner % c.co) + "]"};
}

GatherConfig plan_gather(const Problem& problem) {
  GatherConfig c;
  c.q_first = problem.padding / problem.stride;
  const int64_t count =
      std::max<int64_t>(1, (problem.lout() - 1 + problem.padding) / problem.stride - c.q_first + 1);
  c.residues = std::min<int64_t>(problem.stride, kThreads);
  c.residue_chunks = ceil_div(problem.stride, c.residues);
  c.q_step = std::clamp<int64_t>(count, 1, kThreads / c.residues);
  c.co = problem.cout_per_group() > 1 ? 4 : 1;
  // Several positions share a weight; if one block covers the rows, each thread keeps one position.
  c.p = c.co == 4 ? 2 : count >= 4 * c.q_step ? 4 : 1;
  c.q_tiles = ceil_div(count, c.q_step * c.p);
  c.co_blocks = ceil_div(problem.cout_per_group(), c.co);
  return c;
}

class GatherKernel final : public plan::Kernel {
 public:
  GatherKernel(const Problem& problem, const DeviceInfo& device)
      : problem_(problem), device_(device), config_(plan_gather(problem)) {}

  std::string describe() const override { return config_.text() + tf32_words(problem_); }
  std::vector<plan::StageLine> stages() const override {
    return {{"schedule", "a block a tile of " + std::to_string(tiles_of(config_, problem_))},
            {"source", "x from L1 to registers, a load a product and thread, any strides"},
            {"weights", "raw, from L1"},
            {"product", "multiply-adds, a thread " + std::to_string(config_.p) + " positions x " +
                            std::to_string(config_.co) + " cout"},
            epilogue_line(problem_),
            {"writer", "from registers, element by element, residues side by side"}};
  }
  std::string where(int64_t element) const override {
    const OutputPlace at = output_place(problem_, phases_of(problem_), element);
    return text(at) + "; " + text(holder_of(config_, problem_, at));
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtGather.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    const GatherParams a = params(operands);
    status = launcher.run(gather_function(problem_.dtype, config_.co, config_.p),
                          {std::min(a.tiles, kMaxBlocks), config_.threads()}, a);
    if (!status.ok()) return status;
    return store_bias_alone(launcher, problem_, operands, BiasStored::of_residues);
  }

 private:
  GatherParams params(const plan::Operands& operands) const {
    const Problem& p = problem_;
    GatherParams a{};
    set_transposed_operands(a, p, operands);
    a.k = p.k, a.stride = p.stride, a.dilation = p.dilation;
    a.cin_per_group = p.cin_per_group(), a.cout_per_group = p.cout_per_group(), a.groups = p.groups;
    const core::Polyphase form(p);
    a.common = form.gcd, a.inverse = form.inverse;
    a.q_first = config_.q_first, a.residues = config_.residues, a.q_step = config_.q_step;
    a.q_tiles = config_.q_tiles, a.residue_chunks = config_.residue_chunks, a.co_blocks = config_.co_blocks;
    a.tiles = tiles_of(config_, p);
    return a;
  }

  Problem problem_;
  DeviceInfo device_;
  GatherConfig config_;
};

plan::Support supports(const Problem& p, const DeviceInfo& device, const PlanOptions& options) {
  if (std::string words = simt_refusal(p, device); !words.empty()) return plan::Support::no(words);
  if (p.stride >= int64_t{1} << 31) return plan::Support::no("stride 2^31 or more");
  if (options.force_kernel == kSimtGather.name) return plan::Support::yes();
  return supports_choice(kSimtGather, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& p, const DeviceInfo& device, const PlanOptions&) {
  return std::make_unique<GatherKernel>(p, device);
}

}  // namespace

GatherWork gather_work(const Problem& p) {
  const GatherConfig c = plan_gather(p);
  const double warps = static_cast<double>(c.threads() / 32) * static_cast<double>(c.q_tiles) *
                       static_cast<double>(c.residue_chunks * c.co_blocks) *
                       static_cast<double>(p.groups * p.n);
  return {warps, c.co, c.p};
}

}  // namespace simt

const plan::KernelEntry kSimtGather = {"cuda.simt.gather", "a thread an output: few channels and dilation",
                                       core::DeviceKind::cuda, simt::supports, simt::make};

}  // namespace tconv::cuda
