// What --device names.
#pragma once

#include <memory>
#include <string>

#include "core/device_info.hpp"
#include "judge/target.hpp"

namespace tconv::cli {

// "cpu", "cuda" (the first device here), or a named GPU that need not be here.
core::Result<core::DeviceInfo> device_of(const std::string& name);

// Where kernels can be run: "cpu" or "cuda".
core::Result<std::unique_ptr<judge::Target>> target_of(const std::string& name, int threads,
                                                       std::size_t memory_limit);

}  // namespace tconv::cli
