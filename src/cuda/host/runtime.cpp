#include "cuda/host/runtime.hpp"

namespace tconv::cuda {

using core::Code;

bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorCudartUnloading:
      return true;
    default:
      return false;
  }
}

core::Status status_of(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // a refused call would otherwise leave its error to the next call
  const std::string words = std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
  if (is_sticky(error)) {
    return {Code::device_error, what +
                                    ": an earlier kernel in this process failed and the device's context is "
                                    "lost; only a new process can use it (" +
                                    words + ")"};
  }
  switch (error) {
    case cudaErrorMemoryAllocation:
      return {Code::out_of_memory, what + ": " + words};
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return {Code::unsupported, what + ": this build holds no code for the device (" + words + ")"};
    case cudaErrorInvalidResourceHandle:
      return {Code::invalid_argument,
              what + ": the stream does not belong to the plan's device (" + words + ")"};
    default:
      return {Code::device_error, what + ": " + words};
  }
}

DeviceGuard::DeviceGuard(int index) {
  int current = 0;
  error_ = cudaGetDevice(&current);
  if (error_ != cudaSuccess || current == index) return;
  error_ = cudaSetDevice(index);
  if (error_ == cudaSuccess) previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) (void)cudaSetDevice(previous_);
}

}  // namespace tconv::cuda
