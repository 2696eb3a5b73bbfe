// The configuration of cuda.simt.narrow and longk, and the cost model that chooses it. Pure functions of
// problem, device and splitting.
#pragma once

#include <string>

#include "cuda/host/launch.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/simt/narrow.hpp"

namespace tconv::cuda::simt {

// How the work is cut. Printable and comparable; a pure function of problem, device and splitting.
struct NarrowConfig {
  NarrowTileShape shape{1, 1, 4};
  bool ring = false;  // see NarrowCompiled
  int q_warps = 1, r_warps = 1, slice_warps = 1;
  int residues = 1;  // in a block
  int64_t residue_groups = 1, co_blocks = 1, q_tiles = 1;
  int64_t q_first = 0;
  int64_t taps = 1;  // ceil(K/stride)
  int64_t splits = 1, cin_per_split = 1;
  int64_t chunk = 1;  // channels whose weights lie in shared memory at a time
  int64_t shared_bytes = 0, ring_offset = 0;
  bool direct = false, keep = false;  // see NarrowParams
  int64_t blocks = 1;                 // blocks that the device runs at once
  double ms = 0;                      // by the model
  bool operator==(const NarrowConfig&) const = default;
  int threads() const { return 32 * q_warps * r_warps * slice_warps; }
  std::string text() const;
};

// The compiled tiles of the problem's type.
std::span<const NarrowCompiled> narrow_compiled(const core::Problem& problem);

// Why the kernel cannot take a problem; empty if it can.
std::string narrow_refusal(const core::Problem& problem, const core::DeviceInfo& device);

// One split unless may_split; then as many as fill the device.
NarrowConfig plan_narrow(const core::Problem& problem, const core::DeviceInfo& device, bool batch_invariant,
                         bool may_split);

std::vector<plan::StageLine> stages(const NarrowConfig& config, const core::Problem& problem);
// Who holds an output (all have a residue here), and who makes an element of y, in words.
Holder holder_of(const NarrowConfig& config, const core::Problem& problem, const OutputPlace& place);
std::string where(const NarrowConfig& config, const core::Problem& problem, int64_t element);

// Blocks of the grid.
int64_t grid_blocks(const NarrowConfig& config, const core::Problem& problem);

// Queues the kernel; partial is null if config.splits is 1.
core::Status launch_narrow(const Launcher& launcher, const core::Problem& problem, const NarrowConfig& config,
                           const plan::Operands& operands, void* partial);

}  // namespace tconv::cuda::simt
