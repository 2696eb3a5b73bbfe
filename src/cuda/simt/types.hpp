// Shared by the host side and the kernels of the memory-bound simt families.
#pragma once

#include <cstdint>

namespace tconv::cuda::simt {

// float16 and bfloat16 are both 16-bit words, whose kind is a run-time argument.
enum class Half : int32_t { f16, bf16 };

}  // namespace tconv::cuda::simt
