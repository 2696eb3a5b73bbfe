// One task on the SIMD target in use. scratch: the slot's own, Scratch elements of float (double for f64).
// next: the task that this thread will probably do after this one, or null.
#pragma once

#include "cpu/dense/contract.hpp"

namespace tconv::cpu::dense {

struct Job {
  Geometry geometry;
  Config config;
  Scratch scratch;
};

void compute_f32(const Job& job, const Task& task, const Task* next, const Buffers& buffers, void* scratch);
void compute_f64(const Job& job, const Task& task, const Task* next, const Buffers& buffers, void* scratch);
void compute_f16(const Job& job, const Task& task, const Task* next, const Buffers& buffers, void* scratch);
void compute_bf16(const Job& job, const Task& task, const Task* next, const Buffers& buffers, void* scratch);

}  // namespace tconv::cpu::dense
