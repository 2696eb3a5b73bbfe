// Launches with checks. The run() of a family looks like this:
//
//   const Launcher launcher(kEntry.name, problem, device, context);       // makes the device current
//   if (Status s = launcher.check(operands); !s.ok()) return s;           // pointers, where it is cheap
//   return launcher.run(kernel_function, {blocks, threads, shared_bytes}, params);
//
// The work goes to the caller's stream. Nothing waits, nothing is allocated, and all of it can be captured in
// a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/problem.hpp"
#include "cuda/host/runtime.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

struct Grid {
  int64_t blocks = 1;      // along x; at most kMaxBlocks
  int threads = 1;         // in a block
  std::size_t shared = 0;  // dynamic shared memory in bytes; above 40 KiB the limit is raised
  int cluster = 1;         // blocks in a cluster; only from compute capability 9.0 on
};

inline constexpr int64_t kMaxBlocks = 0x7fffffff;

class Launcher {
 public:
  Launcher(const char* kernel, const core::Problem& problem, const core::DeviceInfo& device,
           const plan::RunContext& context);

  // Refuses operands that are known to be in the wrong place: on another device, or in host memory that the
  // device cannot read. Checks the first tensor that is read and the output, in about a microsecond.
  core::Status check(const plan::Operands& operands) const;

  // Queues one kernel. The argument types are the kernel's own, so another struct does not compile.
  template <class... Parameters>
  core::Status run(void (*function)(Parameters...), const Grid& grid,
                   const std::type_identity_t<std::remove_cv_t<Parameters>>&... arguments) const {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    return run_erased(reinterpret_cast<const void*>(function), grid, pointers);
  }

 private:
  std::string what() const;
  core::Status ready() const;
  core::Status check_pointer(const char* name, const void* pointer) const;
  core::Status run_erased(const void* function, const Grid& grid, void** arguments) const;

  const char* kernel_;
  const core::Problem& problem_;
  const core::DeviceInfo& device_;
  cudaStream_t stream_;
  DeviceGuard guard_;
};

}  // namespace tconv::cuda
