#include "cuda/host/launch.hpp"

namespace tconv::cuda {

using core::Code;
using core::Status;

Launcher::Launcher(const char* kernel, const core::Problem& problem, const core::DeviceInfo& device,
                   const plan::RunContext& context)
    : kernel_(kernel),
      problem_(problem),
      device_(device),
      stream_(static_cast<cudaStream_t>(context.stream)),
      guard_(device.present ? device.index : 0) {}

std::string Launcher::what() const {
  return std::string("kernel ") + kernel_ + " on " + text(problem_);
}

Status Launcher::ready() const {
  if (!device_.present) {
    return {Code::unsupported,
            "the plan was made for a named device (" + device_.name + "): it can be explained, not run"};
  }
  return guard_.error() == cudaSuccess ? Status() : status_of(guard_.error(), what());
}

Status Launcher::check(const plan::Operands& operands) const {
  if (Status status = ready(); !status.ok()) return status;
  Status status = operands.x != nullptr ? check_pointer("x", operands.x)
                                        : check_pointer("grad_output", operands.grad_output);
  return status.ok() ? check_pointer("output", operands.output) : status;
}

Status Launcher::check_pointer(const char* name, const void* pointer) const {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, pointer);
  if (error != cudaSuccess) return status_of(error, what());
  const std::string argument(name);
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != device_.index) {
    return {Code::invalid_argument, argument + " is memory of CUDA device " +
                                        std::to_string(attributes.device) + ": the plan is for device " +
                                        std::to_string(device_.index)};
  }
  if (attributes.type == cudaMemoryTypeUnregistered) {
    int pageable = 0;
    (void)cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, device_.index);
    if (pageable == 0) {
      return {Code::invalid_argument, argument + " is host memory: the plan is for " + device_.name};
    }
  }
  return {};
}

Status Launcher::run_erased(const void* function, const Grid& grid, void** arguments) const {
  if (Status status = ready(); !status.ok()) return status;
  if (grid.blocks <= 0) {  // a plan says in this way that it does not fit; nothing would be computed
    return {Code::internal_error, what() + ": a launch of " + std::to_string(grid.blocks) + " blocks"};
  }
  if (grid.blocks > kMaxBlocks) {
    return {Code::internal_error, what() + ": " + std::to_string(grid.blocks) + " blocks do not fit a grid"};
  }
  constexpr std::size_t kWithoutAsking = 40 * 1024;  // 48 KiB, less what a kernel may have beside it
  if (grid.shared > kWithoutAsking) {
    const cudaError_t raised = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    static_cast<int>(grid.shared));
    if (raised != cudaSuccess) return status_of(raised, what());
  }
  cudaLaunchAttribute attributes[3] = {};
  unsigned count = 0;
  if (device_.sm == 90 && built_for_sm90a()) {  // cuda/device/launch_order.cuh
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (grid.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = static_cast<unsigned>(grid.cluster);
    attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
    // An SM may have several blocks of a cluster: otherwise clusters of 4 leave 8 of 132 SMs empty.
    attributes[++count].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
    attributes[count++].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicyLoadBalancing;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.shared;
  config.stream = stream_;
  config.attrs = attributes;
  config.numAttrs = count;
  const cudaError_t error = cudaLaunchKernelExC(&config, function, arguments);
  return error == cudaSuccess ? Status() : status_of(error, what());
}

}  // namespace tconv::cuda
