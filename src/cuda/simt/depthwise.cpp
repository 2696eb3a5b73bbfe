#include "cuda/simt/depthwise.hpp"

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
using core::DType;
using core::Problem;
using core::Status;
using plan::PlanOptions;

constexpr int64_t kSharedBytes = 48 * 1024;
constexpr int64_t kBlocksPerSm = 128;  // about eight at once, in 16 turns, so that few SMs idle at the end

// How a row is cut. The first four follow from dtype and stride (DepthwiseShape in depthwise.cuh).
struct DepthwiseConfig {
  int64_t run = 4;         // outputs
  int64_t run_inputs = 1;  // Q of a run
  int64_t runs = 1;        // a thread
  int64_t sector = 8;      // elements in 32 bytes
  bool by_words = false;   // x read in words of 4 bytes, else element by element
  int64_t threads = 128;
  int64_t windows = 1, parts = 1;  // windows of a part, parts of a row
  int64_t blocks_of_taps = 1;
  int64_t values = 0, words = 0, pitch = 0;  // a channel of x, see DepthwiseParams
  int64_t weights_pitch = 0;
  int64_t shared_bytes = 0;
  bool operator==(const DepthwiseConfig&) const = default;
  std::string text() const {
    return "a thread " + std::to_string(runs) + " runs of " + std::to_string(run) + " outputs, " +
           std::to_string(threads) + " threads, a block " + std::to_string(windows) + " windows, " +
           std::to_string(parts) + " blocks a row, x in " + (by_words ? "words, " : "elements, ") +
           std::to_string(shared_bytes) + " bytes of shared memory";
  }
};

DepthwiseConfig plan_depthwise(const Problem& p, const DeviceInfo& device) {
  DepthwiseConfig c;
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  c.run = std::max<int64_t>(16 / element, p.stride);
  c.run_inputs = c.run / p.stride;
  c.runs = c.run_inputs >= 4 ? 2 : 64 / element / c.run;
  if (element == 2 && p.stride == 2) c.runs *= 2;  // kTurns
  c.sector = 32 / element;
  const int64_t outputs = p.lout() + c.sector - 1;
  c.by_words =
      p.cin_per_group() == 1 && p.x_steps()[2] == 1 && outputs > kDepthwiseThreads / 2 * c.run * c.runs;
  c.threads = c.by_words ? kDepthwiseThreads : kDepthwiseSmallThreads;
  // A block takes as many windows of a row as still leave several blocks for every SM, one after another.
  const int64_t windows = ceil_div(outputs, c.threads * c.run * c.runs);
  const int64_t wanted = kBlocksPerSm * std::max(1, device.sm_count);
  c.parts = std::clamp<int64_t>(ceil_div(wanted, std::max<int64_t>(1, p.n * p.cout)), 1, windows);
  c.windows = ceil_div(windows, c.parts);
  c.parts = ceil_div(windows, c.windows);
  c.blocks_of_taps = ceil_div(ceil_div(p.k, p.stride), c.run_inputs);
  c.values = c.run_inputs * (c.blocks_of_taps + c.threads * c.runs + 1);
  const int64_t pack = 4 / element;  // the first word may begin pack - 1 elements earlier
  c.words = ceil_div(c.values + pack - 1, pack);
  c.pitch = kDepthwiseLead + ceil_div(c.words * pack, 4) * 4;
  c.weights_pitch = c.blocks_of_taps * c.run;
  c.shared_bytes = p.cin_per_group() * (c.pitch + c.weights_pitch) * 4;
  return c;
}

// depthwise_part and run_phase in reverse, where y begins on 32 bytes.
Holder holder_of(const DepthwiseConfig& c, const Problem& p, const OutputPlace& at) {
  const int64_t line = at.n * p.cout + at.cout, past = line * p.lout() % c.sector;
  const int64_t window = c.threads * c.run * c.runs, e = at.o + past;
  const int64_t tile = line * c.parts + e / (window * c.windows), run = e % window / c.run;
  return {tile % std::min(p.n * p.cout * c.parts, kMaxBlocks), static_cast<int>(run % c.threads),
          "part " + std::to_string(tile) + ", window " + std::to_string(e / window % c.windows) + ", run " +
              std::to_string(run / c.threads) + ", sum[" + std::to_string(e % c.run) + "]"};
}

class DepthwiseKernel final : public plan::Kernel {
 public:
  DepthwiseKernel(const Problem& problem, const DeviceInfo& device)
      : problem_(problem), device_(device), config_(plan_depthwise(problem, device)) {}

  std::string describe() const override { return config_.text() + tf32_words(problem_); }
  std::vector<plan::StageLine> stages() const override {
    const DepthwiseConfig& c = config_;
    return {{"schedule", "a block " + std::to_string(c.windows) + " neighbouring windows of a row, " +
                             std::to_string(c.parts) + " blocks a row"},
            {"source", c.by_words ? "x in words of 4 bytes, the next window's under way in registers"
                                  : "x element by element, any strides"},
            {"weights", "raw, a channel's in shared memory"},
            {"operand", "widened to float32 on its way to shared memory"},
            {"product", "fused multiply-adds that begin at the bias, a thread " + std::to_string(c.runs) +
                            " runs of " + std::to_string(c.run) + " outputs"},
            epilogue_line(problem_),
            {"writer", "from registers, 16-byte vectors; a row's ends element by element"}};
  }
  std::string where(int64_t element) const override {
    const OutputPlace at = output_place(problem_, phases_of(problem_), element);
    return text(at) + "; " + text(holder_of(config_, problem_, at)) + ", where y begins on 32 bytes";
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtDepthwise.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    const DepthwiseParams a = params(operands);
    const Grid grid{std::min(a.tiles, kMaxBlocks), static_cast<int>(config_.threads),
                    static_cast<std::size_t>(config_.shared_bytes)};
    status = launcher.run(depthwise_function(problem_.dtype, problem_.stride, config_.by_words), grid, a);
    return status.ok() ? store_bias_alone(launcher, problem_, operands, BiasStored::none) : status;
  }

 private:
  DepthwiseParams params(const plan::Operands& operands) const {
    const Problem& p = problem_;
    DepthwiseParams a{};
    set_transposed_operands(a, p, operands);
    a.cout = p.cout, a.cout_per_group = p.cout_per_group();
    a.windows = config_.windows, a.parts = config_.parts, a.tiles = p.n * p.cout * a.parts;
    a.cin_per_group = static_cast<int32_t>(p.cin_per_group());
    a.k = static_cast<int32_t>(p.k);
    a.blocks_of_taps = static_cast<int32_t>(config_.blocks_of_taps);
    a.values = static_cast<int32_t>(config_.values), a.words = static_cast<int32_t>(config_.words);
    a.pitch = static_cast<int32_t>(config_.pitch);
    a.weights_pitch = static_cast<int32_t>(config_.weights_pitch);
    a.small = a.tiles < (int64_t{1} << 31) && p.cout < (int64_t{1} << 31);
    if (a.small) {
      a.by_parts = Divisor::of(static_cast<uint32_t>(a.parts));
      a.by_cout = Divisor::of(static_cast<uint32_t>(a.cout));
      a.by_cout_per_group = Divisor::of(static_cast<uint32_t>(a.cout_per_group));
    }
    return a;
  }

  Problem problem_;
  DeviceInfo device_;
  DepthwiseConfig config_;
};

std::string refusal(const Problem& p, const DeviceInfo& device) {
  if (std::string words = simt_refusal(p, device); !words.empty()) return words;
  if (p.dtype == DType::f64) return "dtype f64: this kernel is for f32, f16 and bf16";
  if (p.dilation != 1 && p.k > 1)
    return "dilation " + std::to_string(p.dilation) + ": this kernel is for dilation 1";
  if (p.stride != 1 && p.stride != 2 && p.stride != 4 && p.stride != 8) {
    return "stride " + std::to_string(p.stride) + ": this kernel is for 1, 2, 4 and 8";
  }
  if (p.cin_per_group() > kDepthwiseMaxCin) {
    return "cin " + std::to_string(p.cin_per_group()) + " a group: this kernel is for " +
           std::to_string(kDepthwiseMaxCin) + " at most";
  }
  if (p.k > kSharedBytes || plan_depthwise(p, device).shared_bytes > kSharedBytes) {
    return "k " + std::to_string(p.k) + ": a window does not fit in shared memory";
  }
  return "";
}

plan::Support supports(const Problem& p, const DeviceInfo& device, const PlanOptions& options) {
  if (std::string words = refusal(p, device); !words.empty()) return plan::Support::no(words);
  if (options.force_kernel == kSimtDepthwise.name) return plan::Support::yes();
  return supports_choice(kSimtDepthwise, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& p, const DeviceInfo& device, const PlanOptions&) {
  return std::make_unique<DepthwiseKernel>(p, device);
}

}  // namespace
}  // namespace simt

const plan::KernelEntry kSimtDepthwise = {"cuda.simt.depthwise", "few channels a group, bound by memory",
                                          core::DeviceKind::cuda, simt::supports, simt::make};

}  // namespace tconv::cuda
