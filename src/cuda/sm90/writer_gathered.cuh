// GatheredWriter: of sums of which packed rows are the rows of wgmma. A kernel has one of two writers, so
// that it has the registers and the code of one.
#pragma once

#include "cuda/sm90/repair.cuh"
#include "cuda/sm90/writer_line.cuh"
#include "cuda/sm90/writer_pass.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S, bool Lines>
using GatheredWriter = std::conditional_t<Lines, LineWriter<S>, PassWriter<S>>;

#endif

}  // namespace tconv::cuda::sm90
