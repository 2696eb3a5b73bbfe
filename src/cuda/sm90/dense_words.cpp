// A plan in words, and what the sum of its partial sums needs to know.
#include <cstdio>

#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm80/tiling.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {

using core::Problem;

Sm80SumParams sm90_sum_params(const Sm90Plan& plan, const Problem& p) {
  const Sm90Params& k = plan.params;
  Sm80SumParams s = sm80_sum_phases(p, plan.phases);
  s.group_rows = int64_t{k.row_blocks} * kSm90Rows;
  s.split_size = s.group_rows * k.groups * k.partial_columns;
  s.partial_columns = k.partial_columns;
  s.first_u = k.first_u;
  s.block_couts = k.block_couts;
  s.block_rows = kSm90Rows;
  s.cout_rows = k.phases;
  s.phase_rows = 1;
  s.splits = k.splits;
  s.sample_columns = k.sample_columns;
  return s;
}

std::string text(const Sm90Config& c) {
  const Sm90Tile& tile = sm90_tile(c);
  std::string out = std::string("tile ") + tile.name + ", " + std::to_string(c.walkers) + " walkers, " +
                    std::to_string(c.stages) + " stages" +
                    (c.resident ? ", weights resident" : ", weights streamed");
  if (tile.direct)
    out += ", x by tensor copies (where it begins on 16 bytes, else by elements: slower, the same bits)";
  if (c.held) out += ", operands held in float16 (tiles beyond its range again with operands in tf32)";
  if (c.splits > 1) out += ", split " + std::to_string(c.splits) + " ways and summed in order";
  if (c.folded) out += ", samples folded into one row of columns";
  return out;
}

std::string describe(const Sm90Plan& plan, const Problem& p) {
  const Sm90Cost& c = plan.cost;
  char model[200];
  std::snprintf(model, sizeof model,
                "; predicted %.4f ms (tensor %.4f, load %.4f, L2 %.4f, store %.4f, DRAM %.4f, launch %.4f)",
                c.total, c.tensor, c.load, c.l2, c.store, c.dram, c.launch);
  const bool operands = sm90_tile(plan.config).direct && plan.params.tap_group == 0;
  return text(plan.config) + (operands ? ", operands made in shared memory" : "") +
         (plan.params.straight > 0 ? ", outputs from registers (where y begins on 16 bytes, else staged)"
                                   : "") +
         "; " + name_of(plan.mode) + rows_and_depth(p, plan.phases) + model;
}

}  // namespace tconv::cuda
