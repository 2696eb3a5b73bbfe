// Between the CUDA runtime and core::Status. Nothing here synchronises, allocates or links the driver
// library.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/status.hpp"

namespace tconv::cuda {

// The message for an error in `what`, e.g. "kernel cuda.simt.dense on n1 ci8 ...". Clears the runtime's last
// error, so that the next valid call works. Errors that no call can clear (an earlier kernel broke the
// context) are reported as such.
core::Status status_of(cudaError_t error, const std::string& what);

// Whether the context is lost because an earlier kernel failed. Only a new process helps.
bool is_sticky(cudaError_t error);

// Makes a device current for a scope. Does nothing if it is current already.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  cudaError_t error() const { return error_; }

 private:
  int previous_ = -1;  // -1: nothing to restore
  cudaError_t error_ = cudaSuccess;
};

// Whether the build has code for sm_90a. Otherwise (sm_90 only, or PTX of another target) wgmma kernels are
// empty.
bool built_for_sm90a();

}  // namespace tconv::cuda
