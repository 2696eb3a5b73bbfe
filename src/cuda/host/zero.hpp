// Sets memory to 0 before a kernel that sets marks in it.
#pragma once

#include <cstddef>

#include "cuda/device/launch_order.hpp"
#include "cuda/host/launch.hpp"

namespace tconv::cuda {

struct ZeroParams {
  unsigned char* to;
  int64_t bytes;
  LaunchOrder order;
};

// A kernel, not a memset: a memset between two kernels waits for the whole of the one, and the other for it,
// without programmatic dependent launch. `to` begins on 4 bytes.
core::Status zero(const Launcher& launcher, void* to, std::size_t bytes, const LaunchOrder& order = {});

}  // namespace tconv::cuda
