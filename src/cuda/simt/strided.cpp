#include "cuda/simt/strided.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/host/transposed_form.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/simt/problem_class.hpp"

namespace tconv::cuda {
namespace simt {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;
using core::Status;
using plan::PlanOptions;

namespace {

constexpr int64_t kSharedBytes = 96 * 1024;
constexpr int64_t kStagedBytes = 24 * 1024;  // of channels at once: several blocks an SM

int64_t sum_bytes(const Problem& p) {
  return p.dtype == core::DType::f64 ? 8 : 4;
}

}  // namespace

std::string StridedConfig::text() const {
  return "a thread " + std::to_string(rows) + " ci x " + std::to_string(kStridedPositions) + " positions, " +
         std::to_string(lanes) + " threads a piece of a row, " + std::to_string(turns) + " turns, " +
         std::to_string(channels) + " channels at once, " + std::to_string(shared_bytes) +
         " bytes of shared memory";
}

Holder holder_of(const StridedConfig& c, const Problem& p, int64_t element) {
  const int64_t i = element % p.l, ci = element / p.l % p.cin, n = element / p.l / p.cin;
  const int64_t row = ci % p.cin_per_group(), tile = row / c.rows;
  const int64_t unit =
      (n * p.groups + ci / p.cin_per_group()) * ceil_div(c.row_tiles, c.turns) + tile / c.turns;
  const int64_t piece = c.lanes * kStridedPositions, inside = i % piece;
  const auto thread = static_cast<int>(unit % c.units_a_block() * c.lanes + inside % c.lanes);
  return {unit / c.units_a_block() * c.parts + i / piece, thread,
          "turn " + std::to_string(tile % c.turns) + ", sums[" + std::to_string(row % c.rows) + "][" +
              std::to_string(inside / c.lanes) + "]"};
}

StridedConfig plan_strided(const Problem& p) {
  StridedConfig c;
  const int64_t ci = p.cin_per_group();
  c.rows = ci == 1 ? 1 : ci == 2 ? 2 : ci <= 4 ? 4 : kStridedRows;
  c.row_tiles = ceil_div(ci, c.rows);
  const int64_t element = sum_bytes(p), reach = p.dilation * (p.k - 1) + 1;
  auto set_lanes = [&](int64_t lanes) {
    c.lanes = lanes;
    c.window = p.stride * (lanes * kStridedPositions - 1) + reach;
    c.pitch = strided_place(c.window) + 1;
    const int64_t channel = c.pitch + p.k * c.rows;
    c.channels = std::clamp<int64_t>(
        kStagedBytes / element / std::max<int64_t>(1, channel * c.units_a_block()), 1, p.cout_per_group());
    c.unit_words = c.channels * channel;
    c.shared_bytes = c.unit_words * c.units_a_block() * element;
  };
  int64_t lanes = kStridedThreads;
  while (lanes > 8 && lanes * kStridedPositions / 2 >= p.l) lanes /= 2;
  set_lanes(lanes);
  // Windows of fewer positions, where those of a block do not fit.
  while (c.shared_bytes > kSharedBytes && c.lanes > 8) {
    set_lanes(c.lanes / 2);
  }
  c.parts = ceil_div(p.l, c.lanes * kStridedPositions);
  // A window that holds all channels serves several tiles of rows, as far as blocks remain for the device.
  constexpr int64_t kBlocks = 1500;
  if (c.channels == p.cout_per_group()) {
    const int64_t blocks = ceil_div(p.n * p.groups * c.row_tiles, c.units_a_block()) * c.parts;
    c.turns = std::clamp<int64_t>(blocks / kBlocks, 1, c.row_tiles);
  }
  return c;
}

namespace {

class StridedKernel final : public plan::Kernel {
 public:
  StridedKernel(const Problem& problem, const DeviceInfo& device, const PlanOptions&)
      : problem_(problem), device_(device), config_(plan_strided(problem)) {}

  std::string describe() const override { return config_.text() + tf32_words(problem_); }
  double predicted_ms() const override { return strided_ms(problem_, device_); }
  std::vector<plan::StageLine> stages() const override {
    const StridedConfig& c = config_;
    return {{"schedule", std::to_string(c.lanes) + " threads a piece of " +
                             std::to_string(c.lanes * kStridedPositions) + " positions, " +
                             std::to_string(c.parts) + " pieces a row, " + std::to_string(c.turns) + " of " +
                             std::to_string(c.row_tiles) + " tiles of ci one after the other"},
            {"source", "dy by elements, any strides: windows of " + std::to_string(c.channels) +
                           " channels x " + std::to_string(c.window) + " positions in shared memory"},
            {"weights", "raw, of the same channels in shared memory"},
            {"operand", "widened on its way to shared memory"},
            {"product", "fused multiply-adds, a thread " + std::to_string(c.rows) + " ci x " +
                            std::to_string(kStridedPositions) + " positions"},
            epilogue_line(problem_),
            {"writer", "from registers, element by element"}};
  }

  std::string where(int64_t element) const override {
    return element_text(problem_, element) + "; " + cuda::text(holder_of(config_, problem_, element));
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtStrided.name, problem_, device_, context);
    const Status status = launcher.check(operands);
    if (!status.ok()) return status;
    const StridedParams a = params(operands);
    return launcher.run(strided_function(problem_.dtype, config_.rows),
                        {a.blocks, kStridedThreads, static_cast<std::size_t>(config_.shared_bytes)}, a);
  }

 private:
  StridedParams params(const plan::Operands& operands) const {
    const Problem& p = problem_;
    StridedParams a{};
    a.dy = operands.grad_output, a.weight = operands.weight, a.dx = operands.output;
    a.bias = p.has_bias ? operands.bias : nullptr;
    a.l = p.l, a.lout = p.lout(), a.k = p.k;
    std::ranges::copy(p.y_steps(), a.dy_step);
    a.stride = p.stride, a.padding = p.padding, a.dilation = p.dilation;
    a.cin = p.cin, a.cin_group = p.cin_per_group(), a.cout_group = p.cout_per_group(), a.groups = p.groups;
    a.turns = static_cast<int32_t>(config_.turns);
    a.tile_runs = ceil_div(config_.row_tiles, config_.turns);
    a.units = p.n * p.groups * a.tile_runs;
    a.parts = config_.parts;
    a.blocks = ceil_div(a.units, config_.units_a_block()) * a.parts;
    a.lanes = static_cast<int32_t>(config_.lanes), a.channels = static_cast<int32_t>(config_.channels);
    a.window = static_cast<int32_t>(config_.window), a.pitch = static_cast<int32_t>(config_.pitch);
    a.unit_words = static_cast<int32_t>(config_.unit_words);
    return a;
  }

  Problem problem_;
  DeviceInfo device_;
  StridedConfig config_;
};

std::string refusal(const Problem& p, const DeviceInfo& device) {
  if (std::string other = plan::other_operation(p, core::Operation::strided); !other.empty()) return other;
  if (device.sm < 70) return "compute capability below 7.0";
  if (std::string far = core::beyond_tiles(p); !far.empty()) return far;
  constexpr int64_t kCount = 1 << 20;
  if (p.stride >= kCount || p.k >= kCount || core::Size(p.dilation) * p.k >= kCount) {
    return "stride or dilation times k of 2^20 or more";
  }
  const StridedConfig c = plan_strided(p);
  if (c.shared_bytes > std::min(kSharedBytes, device.shared_per_block)) {
    return "a window of " + std::to_string(c.window) + " positions does not fit shared memory";
  }
  if (core::Size(p.n) * p.groups * c.row_tiles * c.parts > kMaxBlocks) return "more than 2^31 pieces";
  return "";
}

// What a block's loads take that wait for each other, those of an SM's blocks side by side: of n1 ci384 co504
// l4 k5 s2 1.06 ms on an H200.
double chain_ms(const Problem& p, const StridedConfig& c, const DeviceInfo& device) {
  constexpr double kLoadMs = 0.35e-3;
  constexpr int64_t kLoads = 9, kBlocksAnSm = 4;
  const int64_t rounds = ceil_div(p.cout_per_group(), c.channels);
  const int64_t loads =
      c.rows * ceil_div(c.channels * p.k, c.lanes) + c.channels * ceil_div(c.window, kLoads * c.lanes);
  const int64_t blocks =
      ceil_div(p.n * p.groups * ceil_div(c.row_tiles, c.turns), c.units_a_block()) * c.parts;
  const int64_t waves = ceil_div(blocks, kBlocksAnSm * std::max(1, device.sm_count));
  return static_cast<double>(waves * c.turns * rounds * loads) * kLoadMs / (waves > 1 ? kBlocksAnSm : 1);
}

}  // namespace

double strided_tensor_ms(const Problem& p, const DeviceInfo& device) {
  constexpr double kRate = 6e12;  // what float64 reaches on layers of vocoders
  const TransposedForm form = transposed_form(p);
  const Problem& f = form.product;
  const auto padded = static_cast<double>(ceil_div(f.cout_per_group(), 64) * 64) *
                      static_cast<double>(ceil_div(f.cin_per_group(), 32) * 32) *
                      static_cast<double>(f.k * p.groups * p.n) * static_cast<double>(p.l);
  const double memory = problem_work(p).bytes / (0.7 * std::max(1.0, device.copy_gbps)) * 1e-6;
  return 0.008 + std::max(padded / kRate * 1e3, memory) + form.planes_ms(device);
}

double strided_ms(const Problem& p, const DeviceInfo& device) {
  const StridedConfig c = plan_strided(p);
  // Products a second of an SM, by rows: 1.5e12 of an H200 were measured with 1 (n16 ci1 co32 l128000
  // k7), 2.9e12 with 8 (n16 ci32 co64 l131072 k3 s2 d2, n16 ci256 co256 l8192 k8 s4 g8).
  const double rate =
      (9.5e9 + 1.6e9 * c.rows) * std::max(1, device.sm_count) * (p.dtype == core::DType::f64 ? 0.4 : 1);
  const auto products = static_cast<double>(p.n * p.groups * c.row_tiles * c.rows * p.cout_per_group()) *
                        static_cast<double>(p.l) * static_cast<double>(p.k);
  // Every tile of rows reads dy again, from the L2 cache.
  const double dy = static_cast<double>(p.y_elements()) * static_cast<double>(size_of(p.dtype));
  const double bytes = problem_work(p).bytes + dy * static_cast<double>(c.row_tiles - 1) / 3;
  const double memory = bytes / (0.7 * std::max(1.0, device.copy_gbps)) * 1e-6;
  return 0.004 + std::max({products / rate * 1e3, memory, chain_ms(p, c, device)});
}

namespace {

plan::Support supports(const Problem& p, const DeviceInfo& device, const PlanOptions& options) {
  if (std::string words = refusal(p, device); !words.empty()) return plan::Support::no(words);
  if (options.force_kernel == kSimtStrided.name || device.copy_gbps <= 0) return plan::Support::yes();
  return supports_choice(kSimtStrided, p, device, options);
}

}  // namespace
}  // namespace simt

const plan::KernelEntry kSimtStrided = {.name = "cuda.simt.strided",
                                        .summary = "strided products of few channels",
                                        .device = core::DeviceKind::cuda,
                                        .supports = simt::supports,
                                        .make = simt::make_kernel<simt::StridedKernel>,
                                        .y_steps = true,
                                        .strided_bias = true};

}  // namespace tconv::cuda
