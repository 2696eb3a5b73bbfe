// Sets memory to 0 before a kernel that sets marks in it.
#pragma once

#include <cstddef>

#include "cuda/host/launch.hpp"

namespace tconv::cuda {

struct ZeroParams {
  unsigned char* to;
  int64_t bytes;
  bool beside;  // the launch before does not use the memory (cuda/device/launch_order.cuh)
};

// A kernel, not a memset: a memset between two kernels waits for the whole of the one, and the other for it,
// without programmatic dependent launch. `to` begins on 4 bytes.
core::Status zero(const Launcher& launcher, void* to, std::size_t bytes, bool beside = false);

}  // namespace tconv::cuda
