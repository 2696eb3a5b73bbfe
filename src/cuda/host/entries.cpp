// The ordered list of CUDA kernels: special families first, the ones that take every problem last.
#include "cuda/entries.hpp"

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "cuda/host/runtime.hpp"
#include "cuda/simt/bias.hpp"
#include "cuda/simt/dense.hpp"
#include "cuda/simt/depthwise.hpp"
#include "cuda/simt/flipped.hpp"
#include "cuda/simt/gather.hpp"
#include "cuda/simt/longk.hpp"
#include "cuda/simt/narrow.hpp"
#include "cuda/simt/outer.hpp"
#include "cuda/simt/plain.hpp"
#include "cuda/simt/strided.hpp"
#include "cuda/simt/weight.hpp"
#include "cuda/simt/weight_staged.hpp"
#include "cuda/sm80/dense.hpp"
#include "cuda/sm80/overlap.hpp"
#include "cuda/sm80/pointwise.hpp"
#include "cuda/sm80/thin.hpp"
#include "cuda/sm80/thin_weight.hpp"
#include "cuda/sm80/weight.hpp"
#include "cuda/sm80/window.hpp"
#include "cuda/sm90/blocked.hpp"
#include "cuda/sm90/dense.hpp"
#include "cuda/sm90/pointwise.hpp"
#include "cuda/sm90/weight.hpp"
#include "cuda/sm90/weight_blocked.hpp"
#include "cuda/sm90/weight_rows.hpp"
#include "cuda/sm90/weight_turned.hpp"

namespace tconv::cuda {

std::span<const plan::KernelEntry* const> entries() {
  // One line a family: its header src/cuda/<folder>/<family>.hpp declares the entry, its .cpp defines it.
  static const std::vector<const plan::KernelEntry*> list = {
      &kSm80Pointwise, &kSm90Pointwise, &kSm80Window, &kSm80Thin, &kSimtStrided, &kSm80Overlap, &kSimtLongk,
      &kSimtDepthwise, &kSimtNarrow, &kSm90Blocked, &kSm90Dense, &kSm80Dense, &kSimtFlipped, &kSimtGather,
      &kSimtDense,
      // Those that sum the gradient of the bias before those that do not (weight_choice.cpp).
      &kSm90WeightTurned, &kSm90WeightRows, &kSimtOuter, &kSimtWeight, &kSimtWeightStaged,
      &kSm90WeightBlocked, &kSm90Weight, &kSm80ThinWeight, &kSm80Weight, &kSimtBias, &kSimtPlain};
  return list;
}

bool built_for_sm90a() {
  static const bool built = std::string(TCONV_CUDA_TARGETS).find("sm_90a") != std::string::npos;
  return built;
}

const char* build_text() {
  static const std::string words = "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
                                   std::to_string(CUDART_VERSION % 1000 / 10) + " for " TCONV_CUDA_TARGETS;
  return words.c_str();
}

}  // namespace tconv::cuda
