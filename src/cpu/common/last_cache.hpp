// The last cache before memory, and outputs that it does not hold.
#pragma once

#include <cstdint>

#include "core/device_info.hpp"
#include "core/problem.hpp"

namespace tconv::cpu {

// Its size in bytes, as Linux reports it; 0: unknown.
int64_t last_cache_bytes();

// Whether y is too large for the cache to keep it beside x for its reader, so that a kernel should store past
// the caches: about half of the cache or more. Rows of 32 kB of x and 64 kB of y on a Zen 5 with 32 MiB, time
// of streaming divided by that of ordinary stores: y of 8 MiB 1.45, of 16 MiB 0.9, of 32 MiB 0.75, of 64 MiB
// 0.6.
bool streams_output(const core::Problem& problem, const core::DeviceInfo& device);

}  // namespace tconv::cpu
