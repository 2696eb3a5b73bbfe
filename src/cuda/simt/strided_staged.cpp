#include "cuda/simt/strided_staged.hpp"

#include <algorithm>

#include "cuda/simt/strided_way.hpp"

namespace tconv::cuda {
namespace simt {

using core::DeviceInfo;
using core::Problem;
using core::Status;

std::string StridedStagedConfig::text() const {
  return "a thread " + std::to_string(tile.rows) + " ci x " + std::to_string(tile.positions) +
         " positions, a block " + std::to_string(rows()) + " ci x " + std::to_string(positions()) +
         " positions, " + std::to_string(warps_s) + " parts of a sum, " + std::to_string(stages) +
         " stages of " + std::to_string(channels) + " channels, " + std::to_string(shared_bytes) +
         " bytes of shared memory";
}

Holder holder_of(const StridedStagedConfig& c, const Problem& p, int64_t element) {
  const auto [n, group, row, i] = strided_output(p, element);
  const int64_t block =
      ((n * p.groups + group) * c.parts + i / c.positions()) * c.row_blocks + row / c.rows();
  const int64_t inside = i % c.positions(), row_inside = row % c.rows();
  const int64_t warp = row_inside / c.tile.rows * c.warps_p + inside / (32 * c.tile.positions);
  return {block, static_cast<int>(32 * warp + inside % 32),
          "sums[" + std::to_string(row_inside % c.tile.rows) + "][" +
              std::to_string(inside / 32 % c.tile.positions) + "]"};
}

namespace {

class StridedStagedKernel final : public StridedWay<StridedStagedConfig> {
 public:
  using StridedWay::StridedWay;

  double predicted_ms() const override { return config_.ms; }
  std::vector<plan::StageLine> stages() const override {
    const StridedStagedConfig& c = config_;
    const std::string ring =
        std::to_string(c.stages) + " stages of " + std::to_string(c.channels) + " channels";
    const std::string parts =
        c.warps_s > 1 ? ", " + std::to_string(c.warps_s) + " parts of a sum in warps of their own" : "";
    return {{"schedule", "blocks of " + std::to_string(c.rows()) + " ci x " + std::to_string(c.positions()) +
                             " positions, " + std::to_string(c.threads()) + " threads" + parts},
            {"source", std::string(c.contiguous ? "dy by vectors" : "dy by elements, any strides") +
                           ": windows of " + std::to_string(c.slots) + " x " + std::to_string(c.slot_row) +
                           " places, " + ring + " in shared memory"},
            {"weights", "raw, of the same channels in shared memory"},
            {"operand", "as it is"},
            {"product", "fused multiply-adds, a thread " + std::to_string(c.tile.rows) + " ci x " +
                            std::to_string(c.tile.positions) + " positions"},
            epilogue_line(problem_),
            {"writer", "from registers, element by element"}};
  }

 private:
  Status launch(const Launcher& launcher, const plan::Operands& operands) const override {
    const Grid grid = {config_.blocks(problem_), static_cast<int>(config_.threads()),
                       static_cast<std::size_t>(config_.shared_bytes)};
    return launcher.run(strided_staged_function(config_.tile, config_.step), grid, params(operands));
  }

  StridedStagedParams params(const plan::Operands& operands) const {
    const Problem& p = problem_;
    const StridedStagedConfig& c = config_;
    const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
    StridedStagedParams a{};
    set_operands(a, p, operands);
    a.row_blocks = c.row_blocks, a.parts = c.parts, a.blocks = c.blocks(p);
    a.warps_p = narrow(c.warps_p), a.warps_r = narrow(c.warps_r), a.warps_s = narrow(c.warps_s);
    a.channels = narrow(c.channels), a.stages = narrow(c.stages);
    a.slots = narrow(c.slots), a.slot_row = narrow(c.slot_row), a.slot_pitch = narrow(c.slot_pitch);
    a.tap_step = narrow(c.tap_step), a.channel_pitch = narrow(c.slots * c.slot_pitch);
    a.contiguous = c.contiguous;
    a.weight_pitch = narrow(c.weight_pitch), a.weights_at = narrow(c.weights_at());
    a.stage_words = narrow(c.stage_words(p.k)), a.ring_at = narrow(c.ring_at(p.k));
    a.copy_lanes = narrow(c.copy_lanes), a.copy_runs = narrow(c.threads() / c.copy_lanes);
    a.u_step = narrow(c.copy_lanes / c.slots), a.j_step = narrow(c.copy_lanes % c.slots);
    return a;
  }
};

}  // namespace

std::unique_ptr<const plan::Kernel> strided_staged_kernel(const Problem& problem, const DeviceInfo& device,
                                                          const StridedStagedConfig& config) {
  return std::make_unique<StridedStagedKernel>(problem, device, config);
}

}  // namespace simt
}  // namespace tconv::cuda
