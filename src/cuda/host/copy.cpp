// Copies raw weights into the buffer for packed ones, for kernels that read raw weights.
#include <cuda_runtime_api.h>

#include "cuda/entries.hpp"
#include "cuda/host/runtime.hpp"

namespace tconv::cuda {

core::Status copy(const core::DeviceInfo& device, void* to, const void* from, std::size_t bytes,
                  void* stream) {
  if (!device.present) {
    return {core::Code::unsupported,
            "the plan was made for a named device (" + device.name + "): it can be explained, not run"};
  }
  const DeviceGuard guard(device.index);
  cudaError_t error = guard.error();
  if (error == cudaSuccess) {
    error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream));
  }
  return error == cudaSuccess ? core::Status() : status_of(error, "a copy of the weights");
}

}  // namespace tconv::cuda
