// The configuration of cuda.simt.depthwise: which of its ways a problem takes, and how it is cut. Pure
// functions of problem and device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/plan/report.hpp"
#include "cuda/simt/depthwise.hpp"

namespace tconv::cuda::simt {

// The ways have the same bits. words and elements give a row of y one block or more, flat gives a thread a
// vector of y wherever rows end, and wide some outputs of several rows.
enum class DepthwiseWay { words, elements, flat, wide };

struct DepthwiseConfig {
  DepthwiseWay way = DepthwiseWay::elements;
  int64_t run = 4;  // outputs that a thread computes side by side: a vector of y, or more; of wide, in a row
  int64_t threads = 128;
  int64_t blocks = 1;  // of the grid, before it is limited
  // Of wide: threads that have outputs, tiles of a row, blocks of a group's rows.
  int64_t live = 0, tiles = 1, cout_blocks = 1;
  // Of words and elements. The first three follow from dtype and stride (DepthwiseShape in
  // depthwise_taps.cuh).
  int64_t run_inputs = 1;          // Q of a run
  int64_t runs = 1;                // a thread
  int64_t sector = 8;              // elements in 32 bytes
  int64_t windows = 1, parts = 1;  // windows of a part, parts of a row
  int64_t blocks_of_taps = 1;
  int64_t values = 0, words = 0, pitch = 0;  // a channel of x, see DepthwiseParams
  int64_t weights_pitch = 0;
  int64_t shared_bytes = 0;
  bool operator==(const DepthwiseConfig&) const = default;
  std::string text() const;
};

// Products of an output, at most: the taps that meet x, in all channels of a group.
int64_t depthwise_products(const core::Problem& problem);

// Why a way cannot run a problem of the family; empty if it can.
std::string depthwise_flat_refusal(const core::Problem& problem);
std::string depthwise_rows_refusal(const core::Problem& problem, const core::DeviceInfo& device);
std::string depthwise_wide_refusal(const core::Problem& problem);

// The configurations of the ways; of rows, words is for one channel in a group and positions side by side.
DepthwiseConfig depthwise_flat(const core::Problem& problem);
DepthwiseConfig depthwise_rows(const core::Problem& problem, const core::DeviceInfo& device, bool words);

// run: kDepthwiseWideLong or kDepthwiseWideShort.
DepthwiseConfig depthwise_wide(const core::Problem& problem, int64_t run);

// Milliseconds that a configuration is expected to take.
double depthwise_ms(const DepthwiseConfig& config, const core::Problem& problem,
                    const core::DeviceInfo& device);

// The choice, for a problem that one of the ways can run.
DepthwiseConfig plan_depthwise(const core::Problem& problem, const core::DeviceInfo& device);

std::vector<plan::StageLine> stages(const DepthwiseConfig& config, const core::Problem& problem);
// Who holds an output, and who makes an element of y, in words; where y begins on 32 bytes.
Holder holder_of(const DepthwiseConfig& config, const core::Problem& problem, const OutputPlace& place);
std::string where(const DepthwiseConfig& config, const core::Problem& problem, int64_t element);

// A kernel with this configuration, as tests of every way make it.
std::unique_ptr<const plan::Kernel> depthwise_kernel(const core::Problem& problem,
                                                     const core::DeviceInfo& device,
                                                     const DepthwiseConfig& config);

}  // namespace tconv::cuda::simt
