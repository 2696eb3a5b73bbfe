// Raw weights (cin, cout/groups, k) into A: [group][class][cout block][8-row block][tap block][ci][tap][8].
#pragma once

#include "core/executor.hpp"
#include "cpu/dense/compute.hpp"

namespace tconv::cpu::dense {

void pack(const Geometry& geometry, const Config& config, const void* weight, void* packed,
          const core::Executor& executor);

}  // namespace tconv::cpu::dense
