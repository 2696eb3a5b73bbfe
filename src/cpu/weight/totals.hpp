// From float64 totals to the stored gradient.
#pragma once

#include <cstdint>

#include "core/executor.hpp"
#include "core/problem.hpp"

namespace tconv::cpu::weight {

// output[first + i] = totals[i], rounded once.
void store_totals(core::DType dtype, const double* totals, int64_t count, void* output, int64_t first);

// output[i] = sum over slabs, in order, of partials[slab*count + i].
void add_slabs(core::DType dtype, const double* partials, int64_t slabs, int64_t count, void* output,
               const core::Executor& executor);

}  // namespace tconv::cpu::weight
