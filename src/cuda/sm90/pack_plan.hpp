// How the packing of weights for cuda.sm90.dense and cuda.sm90.blocked is divided (pack.cuh). A pure
// function.
#pragma once

#include <vector>

#include "cuda/host/transposed_form.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {

struct Sm90PackLaunch {
  Sm90PackParams params;  // without pointers
  bool stream;            // pack_stream.cuh; otherwise pack.cuh
  int64_t blocks;
  int threads;
  std::size_t shared_bytes;
  Sm90LookParams look;  // a launch before, for the scaled layout
  int64_t look_blocks;  // 0: there is none
};

// both: both layouts, for float32.
Sm90PackLaunch sm90_pack_launch(const Sm90Plan&, const TransposedForm&, const core::DeviceInfo&, bool both);

// A report whose line of weights says so where packing is slow.
std::vector<plan::StageLine> sm90_with_packing(std::vector<plan::StageLine>, const Sm90Plan&,
                                               const TransposedForm&, const core::DeviceInfo&);

}  // namespace tconv::cuda
