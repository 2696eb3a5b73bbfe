// Which SIMD target the kernels of this process run on: the best that the machine has, unless the environment
// variable TCONV_SIMD or choose_target() names another. TCONV_SIMD is read once, on first use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace tconv::cpu::simd {

// Targets that this build holds and this machine has, the best first.
const std::vector<std::string>& target_names();
// The one in use, and how wide its vectors are.
std::string target_name();
int vector_bytes();

// Whether TCONV_SIMD is unset or names one of target_names(). If it does not, the best target is in use, and
// planning refuses with this message.
core::Status target_status();

// Forces a target by name; "" goes back to TCONV_SIMD or the best. Must not be called while kernels run: a
// plan made on one target runs on any, but a run must begin and end on the same one.
core::Status choose_target(std::string_view name);

}  // namespace tconv::cpu::simd
