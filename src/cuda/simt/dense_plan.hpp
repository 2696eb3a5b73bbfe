// Which tile and how many splits: a pure function of problem, device and options.
#pragma once

#include <span>
#include <string>

#include "cuda/plan/report.hpp"
#include "cuda/simt/dense.hpp"
#include "cuda/simt/dense_tiles.hpp"

namespace tconv::cuda {

struct DensePlan {
  Phases phases{};
  DenseClass classes[2]{};  // the second may be empty
  int tile = 0;             // index into dense_tiles(dtype)
  int splits = 1;
  int64_t rows = 0, row_tiles = 0, column_tiles = 0;
  bool rows_first = false;
  int64_t packed_elements = 0;
  double ms = 0;  // by the model

  int64_t blocks(const core::Problem& problem) const {
    return problem.groups * row_tiles * column_tiles * splits;
  }
};

std::span<const DenseTile> dense_tiles(core::DType dtype);

DensePlan plan_dense(const core::Problem& problem, const core::DeviceInfo& device, bool batch_invariant);

std::string describe(const DensePlan& plan, const core::Problem& problem);
std::vector<plan::StageLine> stages(const DensePlan& plan, const core::Problem& problem);
// Who holds an output that has a phase, and who makes an element of y, in words.
Holder holder_of(const DensePlan& plan, const core::Problem& problem, const OutputPlace& place);
std::string where(const DensePlan& plan, const core::Problem& problem, int64_t element);

}  // namespace tconv::cuda
