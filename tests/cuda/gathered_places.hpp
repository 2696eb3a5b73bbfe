// What the ring of weights and LineWriter rely on where x is gathered or lies in channel blocks.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cuda/sm90/cost.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda_test {

// storing: what the plan's kernel is compiled with; element: bytes of an output.
inline void expect_gathered_places(const cuda::Sm90Plan& plan, const cuda::Sm90Storing& storing, int element,
                                   const std::string& what) {
  const cuda::Sm90StageParams& k = plan.params;
  const int parts = cuda::sm90_layout(plan.mode, plan.config.scaled).parts;
  const int tap = cuda::sm90_tile(plan.config).row_blocks * parts * cuda::kSm90PartBytes;
  if (k.weights.resident) {
    EXPECT_EQ(k.grid.splits, 1) << what;
    EXPECT_FALSE(plan.config.scaled) << what;
    int slots = 0;  // every tap of every slab whose phase has it
    for (int slab = 0; slab < k.grid.slabs; ++slab) {
      slots += k.sizes.taps - (slab % k.gather.phases < k.gather.whole ? 0 : 1);
    }
    EXPECT_EQ(k.weights.slots, slots) << what;
  } else {
    EXPECT_GE(k.weights.slots, 3) << what;  // one that is read, the next one, and one that is filled
  }
  EXPECT_GE(k.pass.shared, k.weights.shared + k.weights.slots * tap) << what;
  if (!k.pass.lines) return;
  EXPECT_EQ(k.sizes.stride, 1) << what;
  EXPECT_FALSE(k.pass.partial) << what;
  EXPECT_EQ(k.pass.shared % 16, 0) << what;  // a vector
  EXPECT_EQ(k.pass.line_bytes, storing.line_bytes) << what;
  EXPECT_GE(k.pass.shared_rows,
            k.pass.shared + cuda::kSm90LineRows * cuda::sm90_line_pitch(storing.line_bytes))
      << what;
  if (!k.columns.folded) return;
  // A vector's columns belong to one sample, and it is one of y.
  EXPECT_EQ(k.columns.sample_columns % 8, 0) << what;
  EXPECT_EQ((k.columns.first_u - k.sizes.padding) % 8, 0) << what;
  EXPECT_EQ(k.sizes.lout * element % 16, 0) << what;
}

}  // namespace tconv::cuda_test
