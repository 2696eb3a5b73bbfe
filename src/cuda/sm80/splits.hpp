// How often the kernels that read raw operands divide their depth.
#pragma once

namespace tconv::cuda {

inline constexpr int kMostSplits = 8;  // the blocks of the largest portable cluster

}  // namespace tconv::cuda
