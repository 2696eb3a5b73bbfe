// Host side of strided_sliding.cuh: the way of cuda.simt.strided whose threads hold neighbouring positions.
//
// Instead, threads could read windows of dy straight from memory (strided_direct.cuh): no barriers, but rows
// of odd lengths allow no vectors, and each tap is a load. And they could keep 16-bit elements in shared
// memory, half as many bytes, to be widened at each use: twice the instructions of what binds.
#pragma once

#include "cuda/simt/strided.hpp"

namespace tconv::cuda::simt {

inline constexpr int kSlidingPositions = 8, kSlidingRows = 4;  // of a thread, at most
inline constexpr int64_t kSlidingMostStride = 2;               // of the strides that have a kernel
// Elements of dy that a thread holds: what 4 taps of its positions reach, in vectors of 4.
constexpr int sliding_window(int stride) {
  return (stride * (kSlidingPositions - 1) + 4 + 3) / 4 * 4;
}
// Blocks that an SM must have room for, by rows of a thread: as many as spill next to nothing. With 8 rows
// and 3 blocks, 495 layers take 1.005 times as long.
constexpr int sliding_blocks(int rows) {
  return rows == 4 ? 4 : 5;
}
// Words of dy that a thread loads for a channel, of its lanes' positions and of taps beyond them.
constexpr int sliding_loads(std::size_t element, int64_t stride) {
  return static_cast<int>(kSlidingPositions * stride * (element == 2 ? 1 : 2) / 2) + 2;
}
// Windows that a thread loads at once, of 20 words: with 30 words depthwise layers of float32 take 1.2 to 1.4
// times as long, with 12 words 1.0 to 1.3 times (H200).
constexpr int sliding_group(std::size_t element, int64_t stride) {
  const int group = 20 / sliding_loads(element, stride);
  return group < 1 ? 1 : group > 3 ? 3 : group;
}
// Words of shared memory that n elements of a row take: 4 spare ones behind 32, so that vectors of threads
// whose positions lie 8 or 16 words apart are in different banks.
constexpr int64_t sliding_pitch(int64_t n) {
  return (n + 3) / 4 * 4 + (n + 31) / 32 * 4;
}

struct StridedSlidingParams : StridedParams {
  int64_t row_step, channel_step;  // of weights in memory: from a row's to the next one's, a channel's
  int64_t samples;
  int32_t tap_step;                    // and a tap's: -1 if they are in reverse
  int32_t reached_begin, reached_end;  // positions that some tap reaches
  int64_t piece_runs;                  // of a row
  int32_t walk;                        // pieces of a run, one after the other
  int32_t tap_pitch;                   // of weights, from a channel's to the next one's
  int32_t biases_at, outputs_at;       // in shared memory, in words
  int32_t output_pitch;                // elements of dx from row to row in shared memory
};

using StridedSlidingFunction = void (*)(StridedSlidingParams);
// Of float32 and 16-bit types; rows: 1, 2 or 4; stride: 1 or 2.
StridedSlidingFunction strided_sliding_function(core::DType dtype, int rows, int64_t stride);
// All channels stay; of kSlidingRows; lanes: 32, 64 or 128.
StridedSlidingFunction strided_resident_function(core::DType dtype, int64_t stride, int64_t lanes);

// Empty, or why this way cannot take a strided product.
std::string strided_sliding_refusal(const core::Problem& p, const core::DeviceInfo& device);
// Of a problem that is not refused.
StridedConfig plan_strided_sliding(const core::Problem& p);
StridedSlidingFunction sliding_function_of(const core::Problem& p, const StridedConfig& config);
StridedSlidingParams strided_sliding_params(const core::Problem& p, const StridedConfig& config,
                                            const plan::Operands& operands);
// The same for weights w[co][ci][K-1-k], and operands whose weight is that of the first row's last tap.
StridedSlidingParams flipped_sliding_params(const core::Problem& p, const StridedConfig& config,
                                            const plan::Operands& operands);
double strided_sliding_ms(const core::Problem& p, const StridedConfig& config,
                          const core::DeviceInfo& device);

}  // namespace tconv::cuda::simt
