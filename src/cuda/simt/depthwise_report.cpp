// What a plan of cuda.simt.depthwise is made of, stage by stage, and who makes an output.
#include <algorithm>

#include "cuda/host/launch.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/simt/depthwise_plan.hpp"

namespace tconv::cuda::simt {
namespace {

using core::Problem;
using std::to_string;

std::vector<plan::StageLine> flat_stages(const DepthwiseConfig& c, const Problem& p) {
  const int64_t products = depthwise_products(p);
  return {{"schedule", "a thread a vector of " + to_string(c.run) + " outputs of y as one flat array, " +
                           to_string(c.blocks) + " blocks"},
          {"source", "x from L1 to registers, a load a product, any strides"},
          {"weights", "raw, from L1, a load a product"},
          {"product", "fused multiply-adds that begin at the bias, up to " + to_string(products) +
                          (products == 1 ? " product" : " products") + " an output"},
          epilogue_line(p),
          {"writer",
           "from registers, 16-byte vectors across the ends of rows; the ends of y element by element"}};
}

std::vector<plan::StageLine> wide_stages(const DepthwiseConfig& c, const Problem& p) {
  return {{"schedule", "a block " + to_string(c.live / p.stride * c.run) + " positions q of " +
                           to_string(c.runs) + " channels of y, " + to_string(c.blocks) + " blocks"},
          {"source", "x from L1 to registers, a load for " + to_string(c.runs) + " products, any strides"},
          {"weights", "raw, from L1, a load for " + to_string(c.run) + " products"},
          {"product", "fused multiply-adds that begin at the bias, a thread " + to_string(c.runs) +
                          " channels x " + to_string(c.run) + " outputs"},
          epilogue_line(p),
          {"writer", "from registers, element by element, lanes side by side"}};
}

// The thread of depthwise_wide_kernel that has it; of couts that two have, the first.
Holder wide_holder(const DepthwiseConfig& c, const Problem& p, const OutputPlace& at) {
  const int64_t cout_group = p.cout_per_group(), inner = at.cout % cout_group, columns = c.live / p.stride;
  const int64_t reach = at.o + p.padding, q = reach / p.stride - p.padding / p.stride, r = reach % p.stride;
  const int64_t group = at.n * p.groups + at.cout / cout_group, part = inner / c.runs;
  const int64_t first = std::min(part * c.runs, cout_group - c.runs);
  const int64_t block = (group * c.cout_blocks + part) * c.tiles + q / (columns * c.run);
  return {block, static_cast<int>(q % columns * p.stride + r),
          "sum[" + to_string(inner - first) + "][" + to_string(q % (columns * c.run) / columns) + "]"};
}

// The thread of depthwise_flat_kernel whose vector it is.
Holder flat_holder(const DepthwiseConfig& c, const Problem& p, const OutputPlace& at) {
  const int64_t element = (at.n * p.cout + at.cout) * p.lout() + at.o, vector = element / c.run;
  return {vector / c.threads, static_cast<int>(vector % c.threads),
          "vector " + to_string(vector) + ", sum[" + to_string(element % c.run) + "]"};
}

}  // namespace

std::string DepthwiseConfig::text() const {
  if (way == DepthwiseWay::flat) {
    return "flat, a thread a vector of " + to_string(run) + " outputs across the ends of rows, " +
           to_string(threads) + " threads, " + to_string(blocks) + " blocks";
  }
  if (way == DepthwiseWay::wide) {
    return "wide, a thread " + to_string(runs) + " couts x " + to_string(run) + " outputs of a residue, " +
           to_string(live) + " of " + to_string(threads) + " threads, " + to_string(blocks) + " blocks";
  }
  return "a thread " + to_string(runs) + " runs of " + to_string(run) + " outputs, " + to_string(threads) +
         " threads, a block " + to_string(windows) + " windows, " + to_string(parts) +
         " blocks a row, x in " + (way == DepthwiseWay::words ? "words, " : "elements, ") +
         to_string(shared_bytes) + " bytes of shared memory";
}

std::vector<plan::StageLine> stages(const DepthwiseConfig& c, const Problem& p) {
  if (c.way == DepthwiseWay::flat) return flat_stages(c, p);
  if (c.way == DepthwiseWay::wide) return wide_stages(c, p);
  return {{"schedule", "a block " + to_string(c.windows) + " neighbouring windows of a row, " +
                           to_string(c.parts) + " blocks a row"},
          {"source", c.way == DepthwiseWay::words
                         ? "x in words of 4 bytes, the next window's under way in registers"
                         : "x element by element, any strides"},
          {"weights", "raw, a channel's in shared memory"},
          {"operand", "widened to float32 on its way to shared memory"},
          {"product", "fused multiply-adds that begin at the bias, a thread " + to_string(c.runs) +
                          " runs of " + to_string(c.run) + " outputs"},
          epilogue_line(p),
          {"writer", "from registers, 16-byte vectors; a row's ends element by element"}};
}

// depthwise_part and run_phase in reverse.
Holder holder_of(const DepthwiseConfig& c, const Problem& p, const OutputPlace& at) {
  if (c.way == DepthwiseWay::flat) return flat_holder(c, p, at);
  if (c.way == DepthwiseWay::wide) return wide_holder(c, p, at);
  const int64_t line = at.n * p.cout + at.cout, past = line * p.lout() % c.sector;
  const int64_t window = c.threads * c.run * c.runs, e = at.o + past;
  const int64_t tile = line * c.parts + e / (window * c.windows), run = e % window / c.run;
  return {tile % std::min(c.blocks, kMaxBlocks), static_cast<int>(run % c.threads),
          "part " + to_string(tile) + ", window " + to_string(e / window % c.windows) + ", run " +
              to_string(run / c.threads) + ", sum[" + to_string(e % c.run) + "]"};
}

std::string where(const DepthwiseConfig& c, const Problem& p, int64_t element) {
  const OutputPlace at = output_place(p, phases_of(p), element);
  return text(at) + "; " + text(holder_of(c, p, at)) + ", where y begins on 32 bytes";
}

}  // namespace tconv::cuda::simt
