// Host side of strided.cuh.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/device_info.hpp"
#include "cuda/simt/strided_residues.hpp"
#include "cuda/simt/strided_staged.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

struct Holder;  // cuda/plan/report.hpp

extern const plan::KernelEntry kSimtStrided;

namespace simt {

inline constexpr int kStridedThreads = 128;
inline constexpr int kStridedPositions = 4;  // of a thread, through shared memory
// The same for threads that read dy where it lies (strided_direct.cuh).
inline constexpr int kStridedFewPositions = 2;
constexpr int strided_most_positions(int rows) {
  return rows <= 2 ? 8 : 4;
}
inline constexpr int kStridedRows = 8;  // of a thread, at most: channels ci

struct StridedParams : StridedOperands {
  int64_t tile_runs;     // runs of `turns` tiles of a group's ci
  int64_t units, parts;  // (n, group, run), and pieces of their positions
  int64_t blocks;
  int32_t lanes;     // threads of a unit
  int32_t turns;     // tiles of rows, one after the other
  int32_t tiles;     // of them, whose weights are staged at once
  int32_t channels;  // staged at once
  int32_t window, pitch;
  int32_t weights_at, unit_words;  // of a unit's shared memory, in elements of sums
};

using StridedFunction = void (*)(StridedParams);
StridedFunction strided_function(core::DType dtype, int rows);
StridedFunction strided_direct_function(core::DType dtype, int rows, int positions);
StridedFunction flipped_function(core::DType dtype, int rows, int positions);  // the same, taps in reverse

// How the work is cut.
struct StridedConfig {
  bool direct = false;   // without shared memory
  bool sliding = false;  // the way of strided_sliding.cuh
  int rows = 1, positions = kStridedPositions;
  int64_t lanes = kStridedThreads, parts = 1, row_tiles = 1, turns = 1, tiles = 1;
  int64_t channels = 1, window = 1, pitch = 1;
  int64_t weights_at = 0, unit_words = 0, shared_bytes = 0;
  // If sliding; resident: all channels stay in shared memory; walk: pieces of a block; stages: of windows.
  bool resident = false;
  int64_t walk = 1, stages = 1;
  int64_t biases_at = 0, outputs_at = 0, output_pitch = 0;
  // If one of them is set, the other fields are unused.
  std::optional<StridedStagedConfig> staged;
  std::optional<StridedResidueConfig> residues;
  bool operator==(const StridedConfig&) const = default;
  int64_t units_a_block() const { return kStridedThreads / lanes; }
  std::string text() const;
};
// The fastest of the two ways below and those of strided_sliding.cuh, strided_staged.cuh and
// strided_residues.cuh, according to their models.
// batch_invariant: the bits do not depend on N.
StridedConfig plan_strided(const core::Problem& p, const core::DeviceInfo& device, bool batch_invariant);
StridedConfig plan_strided_windows(const core::Problem& p);
// Empty, or why threads cannot read dy where it lies.
std::string strided_direct_refusal(const core::Problem& p);
StridedConfig plan_strided_direct(const core::Problem& p, int positions);
// With as many positions of a thread as is expected to be faster.
StridedConfig plan_strided_direct(const core::Problem& p, const core::DeviceInfo& device);
// For a configuration that one of these made.
std::unique_ptr<const plan::Kernel> strided_kernel(const core::Problem& problem,
                                                   const core::DeviceInfo& device,
                                                   const StridedConfig& config);
// Of one of the two ways here.
StridedParams strided_params(const core::Problem& p, const StridedConfig& config,
                             const plan::Operands& operands);
Holder holder_of(const StridedConfig& config, const core::Problem& problem, int64_t element);

// Predicted milliseconds of a strided product that the kernel can take, and of the same product in float64 on
// tensor cores. Those compute its transposed form, with rows padded to 64 and channels to a slab.
double strided_ms(const core::Problem& p, const StridedConfig& config, const core::DeviceInfo& device);
double strided_tensor_ms(const core::Problem& p, const core::DeviceInfo& device);

// In shared memory every 32 words are followed by a spare one, so that positions a power of two apart lie in
// different banks.
constexpr int64_t strided_place(int64_t e) {
  return e + (e >> 5);
}

}  // namespace simt
}  // namespace tconv::cuda
