#include "cuda/simt/strided.hpp"

#include <algorithm>
#include <limits>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/simt/strided_sliding.hpp"
#include "cuda/simt/strided_way.hpp"

namespace tconv::cuda {
namespace simt {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;
using core::Status;
using plan::PlanOptions;

namespace {

constexpr int64_t kSharedBytes = 96 * 1024;
constexpr int64_t kStagedBytes = 24 * 1024;  // of the channels staged at once: several blocks fit an SM

int64_t sum_bytes(const Problem& p) {
  return p.dtype == core::DType::f64 ? 8 : 4;
}

}  // namespace

std::string StridedConfig::text() const {
  if (staged) return staged->text();
  if (residues) return residues->text();
  return "a thread " + std::to_string(rows) + " ci x " + std::to_string(positions) + " positions, " +
         (direct    ? "dy where it lies, "
          : sliding ? "side by side, "
                    : "") +
         std::to_string(lanes) + " threads a piece of a row, " + std::to_string(turns) +
         " turns, weights of " + std::to_string(tiles) + " staged, " + std::to_string(channels) +
         " channels at once, " + std::to_string(shared_bytes) + " bytes of shared memory";
}

Holder holder_of(const StridedConfig& c, const Problem& p, int64_t element) {
  if (c.staged) return holder_of(*c.staged, p, element);
  if (c.residues) return holder_of(*c.residues, p, element);
  const auto [n, group, row, i] = strided_output(p, element);
  const int64_t tile = row / c.rows;
  // Of short rows, units of a block have tiles of rows, or the same tile of several samples.
  const int64_t units = c.units_a_block(), samples = c.sliding ? units : 1;
  const int64_t unit = (n / samples * p.groups + group) * ceil_div(c.row_tiles, c.turns) + tile / c.turns;
  const int64_t block = c.sliding ? unit : unit / units, of_block = c.sliding ? n % units : unit % units;
  const int64_t piece = c.lanes * c.positions, inside = i % piece;
  const int64_t lane = c.sliding ? inside / c.positions : inside % c.lanes;
  const int64_t position = c.sliding ? inside % c.positions : inside / c.lanes;
  const auto thread = static_cast<int>(of_block * c.lanes + lane);
  return {block * ceil_div(c.parts, c.walk) + i / piece / c.walk, thread,
          (c.walk > 1 ? "piece " + std::to_string(i / piece % c.walk) + ", " : "") + "turn " +
              std::to_string(tile % c.turns) + ", sums[" + std::to_string(row % c.rows) + "][" +
              std::to_string(position) + "]"};
}

namespace {

void set_rows(StridedConfig& c, const Problem& p) {
  const int64_t ci = p.cin_per_group();
  c.rows = ci == 1 ? 1 : ci == 2 ? 2 : ci <= 4 ? 4 : kStridedRows;
  c.row_tiles = ceil_div(ci, c.rows);
}

}  // namespace

std::string strided_direct_refusal(const Problem& p) {
  if (p.lout() > 1 && p.y_steps()[2] != 1) return "positions of dy do not lie side by side";
  constexpr int64_t kCount = 1 << 30;
  const core::Size reach = core::Size(p.stride) * (p.l + 2 * kStridedThreads * strided_most_positions(1)) +
                           core::Size(p.dilation) * p.k;
  if (reach >= kCount || p.padding >= kCount || p.lout() >= kCount) return "positions reach 2^30";
  return "";
}

StridedConfig plan_strided_direct(const Problem& p, int positions) {
  StridedConfig c;
  c.direct = true;
  set_rows(c, p);
  c.positions = positions;
  while (c.lanes > 4 && c.lanes * c.positions / 2 >= p.l) c.lanes /= 2;
  c.lanes = std::min<int64_t>(c.lanes, kStridedThreads);
  c.parts = ceil_div(p.l, c.lanes * c.positions);
  return c;
}

StridedConfig plan_strided_direct(const Problem& p, const DeviceInfo& device) {
  // At wide strides loads share few cache lines, and many positions read more than the L1 cache keeps, which
  // takes up to 5 times as long. Elsewhere the count that is expected to be faster takes 1.015 times as long
  // as the better one.
  constexpr int64_t kWideStride = 8;
  const StridedConfig few = plan_strided_direct(p, kStridedFewPositions);
  if (p.stride >= kWideStride) return few;
  const StridedConfig most = plan_strided_direct(p, strided_most_positions(few.rows));
  return strided_ms(p, few, device) < strided_ms(p, most, device) ? few : most;
}

namespace {

// one_part: of the ways that sum in the same order.
StridedConfig fastest(const Problem& p, const DeviceInfo& device, bool one_part) {
  StridedConfig best = plan_strided_windows(p);
  const bool fits = best.shared_bytes <= std::min(kSharedBytes, device.shared_per_block);
  double ms = fits ? strided_ms(p, best, device) : std::numeric_limits<double>::infinity();
  const auto take = [&](const StridedConfig& c) {
    const double other = strided_ms(p, c, device);
    if (other < ms) best = c, ms = other;
  };
  if (strided_direct_refusal(p).empty()) take(plan_strided_direct(p, device));
  if (strided_sliding_refusal(p, device).empty()) take(plan_strided_sliding(p));
  if (strided_staged_refusal(p, device).empty()) {
    StridedConfig c;
    c.staged = plan_strided_staged(p, device, one_part);
    take(c);
  }
  constexpr int64_t kChannels = 8;  // fewer are not worth its sums at the end, and its model knows none
  if (!one_part && p.cout_per_group() >= kChannels && strided_residue_refusal(p).empty()) {
    StridedConfig c;
    c.residues = plan_strided_residues(p, device);
    take(c);
  }
  return best;
}

}  // namespace

StridedConfig plan_strided(const Problem& p, const DeviceInfo& device, bool batch_invariant) {
  if (!batch_invariant || p.n <= 1) return fastest(p, device, false);
  Problem one = p;
  one.n = 1;
  StridedConfig c = fastest(one, device, false);
  if (c.residues) c.residues = plan_strided_residues(p, device);  // of the same bits
  return c.residues || (c.staged && c.staged->warps_s > 1) ? c : fastest(p, device, true);
}

namespace {

// Where a unit's weights begin, behind its window, and where the next unit begins.
void set_places(StridedConfig& c, const Problem& p, int64_t tiles) {
  constexpr int64_t kVector = 4;  // elements of 4 bytes, on whose boundaries weights are loaded
  c.tiles = tiles;
  c.weights_at = round_up(c.channels * c.pitch, kVector);
  c.unit_words = round_up(c.weights_at + tiles * c.channels * p.k * c.rows, kVector);
  c.shared_bytes = c.unit_words * c.units_a_block() * sum_bytes(p);
}

}  // namespace

StridedConfig plan_strided_windows(const Problem& p) {
  StridedConfig c;
  set_rows(c, p);
  const int64_t element = sum_bytes(p), reach = p.dilation * (p.k - 1) + 1;
  auto set_lanes = [&](int64_t lanes) {
    c.lanes = lanes;
    c.window = p.stride * (lanes * kStridedPositions - 1) + reach;
    c.pitch = strided_place(c.window) + 1;
    const int64_t channel = c.pitch + p.k * c.rows;
    c.channels = std::clamp<int64_t>(
        kStagedBytes / element / std::max<int64_t>(1, channel * c.units_a_block()), 1, p.cout_per_group());
    set_places(c, p, 1);
  };
  int64_t lanes = kStridedThreads;
  while (lanes > 8 && lanes * kStridedPositions / 2 >= p.l) lanes /= 2;
  set_lanes(lanes);
  // Windows of fewer positions if those of a block do not fit.
  while (c.shared_bytes > kSharedBytes && c.lanes > 8) {
    set_lanes(c.lanes / 2);
  }
  c.parts = ceil_div(p.l, c.lanes * kStridedPositions);
  // A window that holds all channels serves several tiles of rows, while enough blocks remain for the device.
  constexpr int64_t kBlocks = 1500;
  if (c.channels == p.cout_per_group()) {
    const int64_t blocks = ceil_div(p.n * p.groups * c.row_tiles, c.units_a_block()) * c.parts;
    c.turns = std::clamp<int64_t>(blocks / kBlocks, 1, c.row_tiles);
    const int64_t left = kStagedBytes / element / c.units_a_block() - c.weights_at;
    set_places(c, p, std::clamp<int64_t>(left / (c.channels * p.k * c.rows), 1, c.turns));
  }
  return c;
}

StridedParams strided_params(const Problem& p, const StridedConfig& c, const plan::Operands& operands) {
  StridedParams a{};
  set_operands(a, p, operands);
  a.turns = static_cast<int32_t>(c.turns);
  a.tile_runs = ceil_div(c.row_tiles, c.turns);
  a.units = p.n * p.groups * a.tile_runs;
  a.parts = c.parts;
  a.blocks = ceil_div(a.units, c.units_a_block()) * a.parts;
  a.lanes = static_cast<int32_t>(c.lanes), a.channels = static_cast<int32_t>(c.channels);
  a.window = static_cast<int32_t>(c.window), a.pitch = static_cast<int32_t>(c.pitch);
  a.tiles = static_cast<int32_t>(c.tiles);
  a.weights_at = static_cast<int32_t>(c.weights_at);
  a.unit_words = static_cast<int32_t>(c.unit_words);
  return a;
}

namespace {

class StridedKernel final : public StridedWay<StridedConfig> {
 public:
  using StridedWay::StridedWay;

  double predicted_ms() const override { return strided_ms(problem_, config_, device_); }
  std::vector<plan::StageLine> stages() const override {
    const StridedConfig& c = config_;
    return {
        {"schedule", std::to_string(c.lanes) + " threads a piece of " +
                         std::to_string(c.lanes * c.positions) + " positions, " + std::to_string(c.parts) +
                         " pieces a row, " + std::to_string(c.turns) + " of " + std::to_string(c.row_tiles) +
                         " tiles of ci one after the other"},
        {"source", source()},
        {"weights", c.direct ? "raw, through the L1 cache" : "raw, of the same channels in shared memory"},
        {"operand", c.direct ? "widened in registers" : "widened on its way to shared memory"},
        {"product", "fused multiply-adds, a thread " + std::to_string(c.rows) + " ci x " +
                        std::to_string(c.positions) + " positions"},
        epilogue_line(problem_),
        {"writer", c.sliding ? "through shared memory, in words" : "from registers, element by element"}};
  }

 private:
  std::string source() const {
    if (config_.direct) return "dy by elements, through the L1 cache";
    const std::string windows = ": windows of " + std::to_string(config_.channels) + " channels x " +
                                std::to_string(config_.window) + " positions in shared memory";
    if (!config_.sliding) return "dy by elements, any strides" + windows;
    return "dy by words of 4 bytes" + windows + (config_.resident ? "" : ", the next ones under way");
  }
  Status launch(const Launcher& launcher, const plan::Operands& operands) const override {
    if (config_.sliding) {
      const StridedSlidingParams a = strided_sliding_params(problem_, config_, operands);
      return launcher.run(sliding_function_of(problem_, config_),
                          {a.blocks, kStridedThreads, static_cast<std::size_t>(config_.shared_bytes)}, a);
    }
    const StridedParams a = strided_params(problem_, config_, operands);
    if (config_.direct) {
      return launcher.run(strided_direct_function(problem_.dtype, config_.rows, config_.positions),
                          {a.blocks, kStridedThreads}, a);
    }
    return launcher.run(strided_function(problem_.dtype, config_.rows),
                        {a.blocks, kStridedThreads, static_cast<std::size_t>(config_.shared_bytes)}, a);
  }
};

}  // namespace

std::unique_ptr<const plan::Kernel> strided_kernel(const Problem& problem, const DeviceInfo& device,
                                                   const StridedConfig& config) {
  if (config.staged) return strided_staged_kernel(problem, device, *config.staged);
  if (config.residues) return strided_residue_kernel(problem, device, *config.residues);
  return std::make_unique<StridedKernel>(problem, device, config);
}

namespace {

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const DeviceInfo& device,
                                         const PlanOptions& options) {
  return strided_kernel(problem, device, plan_strided(problem, device, options.batch_invariant));
}

std::string refusal(const Problem& p, const DeviceInfo& device, bool batch_invariant) {
  if (std::string words = simt_refusal(p, device, core::Operation::strided); !words.empty()) return words;
  constexpr int64_t kCount = 1 << 20;
  if (p.stride >= kCount || p.k >= kCount || core::Size(p.dilation) * p.k >= kCount) {
    return "stride or dilation times k of 2^20 or more";
  }
  const StridedConfig c = plan_strided(p, device, batch_invariant);
  if (c.staged || c.residues) return "";
  if (c.shared_bytes > std::min(kSharedBytes, device.shared_per_block)) {
    return "a window of " + std::to_string(c.window) + " positions does not fit shared memory";
  }
  if (core::Size(p.n) * p.groups * c.row_tiles * c.parts > kMaxBlocks) return "more than 2^31 pieces";
  return "";
}

plan::Support supports(const Problem& p, const DeviceInfo& device, const PlanOptions& options) {
  if (std::string words = refusal(p, device, options.batch_invariant); !words.empty()) {
    return plan::Support::no(words);
  }
  if (options.force_kernel == kSimtStrided.name || device.copy_gbps <= 0) return plan::Support::yes();
  return supports_choice(kSimtStrided, p, device, options);
}

}  // namespace
}  // namespace simt

const plan::KernelEntry kSimtStrided = {.name = "cuda.simt.strided",
                                        .summary = "strided products of few channels",
                                        .device = core::DeviceKind::cuda,
                                        .supports = simt::supports,
                                        .make = simt::make,
                                        .y_steps = true,
                                        .strided_bias = true};

}  // namespace tconv::cuda
