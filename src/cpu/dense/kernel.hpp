#pragma once

#include "plan/kernel_entry.hpp"

namespace tconv::cpu::dense {

extern const plan::KernelEntry kEntry;  // "cpu.dense"

}  // namespace tconv::cpu::dense
