// cpu.bias: the gradient of the bias.
//
//   dy (N, Cout, Lout)   db (Cout):   db[co] = sum over n, o of dy[n, co, o]
//
//   for each task (slab of chunks, co):                                      threads
//     for each chunk of 4096 positions of a row: sum by vectors, then across lanes, then in float64
//   round the totals to db; with several slabs, keep them and add the slabs in order afterwards
//
// Chunks and slabs depend on the problem alone, and so does the order of sums.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::weight {

inline constexpr int64_t kBiasChunk = 4096;

// Sum of `count` elements, at most kBiasChunk, from `first` on and `step` apart.
double sum_of(core::DType dtype, const void* dy, int64_t first, int64_t step, int64_t count);

}  // namespace tconv::cpu::weight
