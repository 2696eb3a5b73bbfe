// Times on a GPU: events around the replay of a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "judge/target.hpp"

namespace tconv::judge {

// Captures what `queue` puts on the stream, replays it once to warm up and once between two events. Returns
// the seconds divided by `parts`.
core::Result<double> time_graph(cudaStream_t stream, const std::function<core::Status()>& queue, int parts);

// The multiply-add rate of registers alone and the rate of a copy of 2 GiB.
core::Result<Attained> measure_rates(cudaStream_t stream, bool f64, int sm_count);

}  // namespace tconv::judge
