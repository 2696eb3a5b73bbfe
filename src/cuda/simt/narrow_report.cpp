// What a plan of cuda.simt.narrow or longk is made of, stage by stage, and who makes an output.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/simt/narrow_plan.hpp"

namespace tconv::cuda::simt {
namespace {

using core::Problem;
using std::to_string;

int64_t tiles_of(const NarrowConfig& c, const Problem& p) {
  return c.q_tiles * c.co_blocks * c.residue_groups * p.n * p.groups * c.splits;
}

std::string writer_words(const NarrowConfig& c) {
  std::string out = c.splits > 1 ? "partial sums as y lies, " : "";
  out += c.direct
             ? "from registers, a thread the " + to_string(c.shape.r) + " residues of a position side by side"
             : std::string("staged in shared memory, then rows element by element");
  if (c.splits > 1) out += ", then the ordered sum of " + to_string(c.splits) + " splits";
  return out;
}

}  // namespace

int64_t grid_blocks(const NarrowConfig& c, const Problem& p) {
  return std::min(tiles_of(c, p), c.keep ? c.blocks : kMaxBlocks);
}

std::vector<plan::StageLine> stages(const NarrowConfig& c, const Problem& p) {
  const std::string taps = to_string(c.taps) + (c.taps == 1 ? " tap" : " taps");
  return {{"schedule", to_string(grid_blocks(c, p)) + " blocks take " + to_string(tiles_of(c, p)) + " tiles"},
          {"source", c.ring ? "x through a ring of " + to_string(ring_depth(c.shape.p)) +
                                  " channels in shared memory, a ring a warp, channels ahead"
                            : "x from L1 to registers, all taps of a channel at once"},
          {"weights", "raw, " + to_string(c.chunk) + " channels at a time in shared memory" +
                          (c.keep ? ", where they stay" : "")},
          {"product", "fused multiply-adds, a thread " + to_string(c.shape.p) + " positions x " +
                          to_string(c.shape.r) + " residues x " + to_string(c.shape.co) + " cout, " + taps},
          epilogue_line(p),
          {"writer", writer_words(c)}};
}

// narrow_tile and narrow_thread in reverse.
Holder holder_of(const NarrowConfig& c, const Problem& p, const OutputPlace& at) {
  const int64_t reach = at.o + p.padding, r = reach % p.stride, q = reach / p.stride - c.q_first;
  const int64_t q_block = int64_t{32} * c.shape.p * c.q_warps, in_q = q % q_block;
  const int64_t in_r = r % c.residues, r_warp = in_r / c.shape.r;
  int64_t tile = at.n * p.groups + at.group;
  tile = tile * c.q_tiles + q / q_block;
  tile = tile * c.co_blocks + at.inner / c.shape.co;
  tile = tile * c.residue_groups + r / c.residues;
  const int64_t warp = r_warp * c.q_warps + in_q / (32 * c.shape.p);
  return {tile % grid_blocks(c, p), static_cast<int>(32 * warp + in_q % 32),
          "tile " + to_string(tile) + ", sum[" + to_string(in_q / 32 % c.shape.p) + "][" +
              to_string(at.inner % c.shape.co * c.shape.r + in_r % c.shape.r) + "]"};
}

std::string where(const NarrowConfig& c, const Problem& p, int64_t element) {
  const OutputPlace at = output_place(p, phases_of(p), element);
  std::string out = text(at) + "; " + text(holder_of(c, p, at));
  if (c.slice_warps > 1) out += ", with the sums of " + to_string(c.slice_warps - 1) + " more slices of cin";
  if (c.splits == 1) return out;
  return out + ", of the first split; " +
         text(sum_position(p.y_elements(), element), static_cast<int>(c.splits));
}

}  // namespace tconv::cuda::simt
