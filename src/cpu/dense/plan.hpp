// From a problem to the geometry and the choices of cpu.dense. Pure, a few divisions, nothing tuned per
// length.
#pragma once

#include <string>

#include "cpu/dense/contract.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::dense {

plan::Support supports(const core::Problem& problem);
Geometry make_geometry(const core::Problem& problem);  // with classes still unplaced
// Places the classes in the packed weights and chooses blocks. threads only shapes the tasks, and the bytes
// of a vector only depth blocks, strips and passes.
Config make_config(Geometry& geometry, int threads, int vector_bytes);
// The same for raw weights that are packed by the threads that read them. There is one panel, since each
// would pack all of the weights again. chunk_units is 0 if packing all of them first is better.
Config make_raw_config(const Geometry& geometry, const Config& packed, int threads, int vector_bytes);

Scratch scratch_of(const Geometry& geometry, const Config& config);
int64_t task_count(const Geometry& geometry, const Config& config);
Task task_at(const Config& config, int64_t index);

std::string text(const Geometry& geometry, const Config& config);

}  // namespace tconv::cpu::dense
