// Kernels of cuda.sm90.dense with a leaky ReLU as prologue (toy_stages.cu), whose slope alternates from
// channel to channel.
#pragma once

#include "cuda/sm90/dense.hpp"

namespace tconv::cuda {

inline constexpr float kToyEven = 0.1f, kToyOdd = -0.3f;

// Of one row block, by the smallest tiles: what is missing is null.
Sm90Kernels leaky_f16();
Sm90Kernels leaky_tf32();
Sm90Kernels leaky_ieee();

}  // namespace tconv::cuda
