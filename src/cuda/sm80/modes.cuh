// The arithmetics (cuda/device/arithmetic.cuh) by the names of this family.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/sm80/dense.hpp"

namespace tconv::cuda::sm80 {

using cuda::Bf16;
using cuda::F16;
using cuda::F64;
using cuda::Ieee;
using cuda::Tf32;

using cuda::kInfBits;
using cuda::to_tf32;

}  // namespace tconv::cuda::sm80
