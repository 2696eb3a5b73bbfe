// Panels hold zeros outside x, and zero times an infinite or NaN weight is a NaN that the operation does not
// have. If packing found such a weight, this recomputes, with scalar loops, the outputs that have a tap
// outside x.
#pragma once

#include "core/executor.hpp"
#include "cpu/dense/contract.hpp"

namespace tconv::cpu::dense {

void repair_ends(const Geometry& geometry, const Config& config, const Buffers& buffers,
                 const core::Executor& executor);

// An output without any product is its bias, including -0.0; a sum of zeros to which the bias is added has
// lost that sign. If a bias is -0.0, this stores it.
void store_bias_alone(const Geometry& geometry, const Buffers& buffers, const core::Executor& executor);

}  // namespace tconv::cpu::dense
