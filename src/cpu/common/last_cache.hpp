// The cache that lies before memory, and outputs that it does not hold.
#pragma once

#include <cstdint>

#include "core/device_info.hpp"
#include "core/problem.hpp"

namespace tconv::cpu {

// Its bytes, as Linux tells them; 0: unknown.
int64_t last_cache_bytes();

// Whether the cache would not keep y for its reader beside x, so that a kernel should store past the caches:
// half of the cache, or nearly. Rows of 32 kB of x and 64 kB of y on a Zen 5 with 32 MiB, times of streaming
// over ordinary stores: y of 8 MiB 1.45, of 16 MiB 0.9, of 32 MiB 0.75, of 64 MiB 0.6.
bool streams_output(const core::Problem& problem, const core::DeviceInfo& device);

}  // namespace tconv::cpu
