// The CUDA devices of this machine, queried once per ordinal.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <string>

#include "cuda/entries.hpp"
#include "cuda/host/runtime.hpp"

namespace tconv::cuda {
namespace {

using core::Code;
using core::DeviceInfo;
using core::Result;
using core::Status;

// "NVIDIA H100 80GB HBM3" -> "h10080gbhbm3", so that it begins with the name of its table row.
std::string bare_name(std::string name) {
  for (const char* vendor : {"NVIDIA ", "Tesla ", "GeForce "}) {
    if (name.starts_with(vendor)) name.erase(0, std::string_view(vendor).size());
  }
  std::string bare;
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return bare;
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  (void)cudaDeviceGetAttribute(&value, which, index);
  return value;
}

// The rates in the table for a device of that name; otherwise those that follow from its clock and widths.
void set_rates(DeviceInfo& device, int index) {
  const std::string bare = bare_name(device.name);
  const DeviceInfo* row = nullptr;
  for (const DeviceInfo& named : core::named_devices()) {
    const bool longer = row == nullptr || named.name.size() > row->name.size();
    if (named.sm == device.sm && bare.starts_with(named.name) && longer) row = &named;
  }
  if (row != nullptr) {
    const double share = static_cast<double>(device.sm_count) / row->sm_count;
    device.copy_gbps = row->copy_gbps;
    device.fp32_gflops = row->fp32_gflops * share;
    device.fp64_gflops = row->fp64_gflops * share;
    device.tf32_gflops = row->tf32_gflops * share;
    device.half_gflops = row->half_gflops * share;
    return;
  }
  const double clock_ghz = attribute(cudaDevAttrClockRate, index) * 1e-6;
  const double memory_ghz = attribute(cudaDevAttrMemoryClockRate, index) * 1e-6;
  const int bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, index) / 8;
  const int lanes = device.sm == 70 || device.sm == 75 || device.sm == 80 ? 64 : 128;
  const int ratio = std::max(1, attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio, index));
  device.copy_gbps = 0.9 * 2 * memory_ghz * bus_bytes;
  device.fp32_gflops = 0.75 * 2 * lanes * device.sm_count * clock_ghz;
  device.fp64_gflops = device.fp32_gflops / ratio;
}

Result<DeviceInfo> ask(int index) {
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error != cudaSuccess) return status_of(error, "CUDA device " + std::to_string(index));
  DeviceInfo device;
  device.kind = core::DeviceKind::cuda;
  device.name = properties.name;
  device.index = index;
  device.sm = properties.major * 10 + properties.minor;
  device.sm_count = properties.multiProcessorCount;
  device.shared_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  device.shared_per_sm = static_cast<int64_t>(properties.sharedMemPerMultiprocessor);
  device.l2_bytes = properties.l2CacheSize;
  device.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  set_rates(device, index);
  return device;
}

// The CUDA runtime is linked statically and works with every driver of its major version or later.
std::string about_driver() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no NVIDIA driver is installed";
  return "the NVIDIA driver is for CUDA " + std::to_string(driver / 1000) + "." +
         std::to_string(driver % 1000 / 10) + ", this build of tconv needs one for CUDA " +
         std::to_string(CUDART_VERSION / 1000) + " or later";
}

Result<int> device_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  if (error == cudaSuccess || error == cudaErrorNoDevice) {
    (void)cudaGetLastError();
    return Status(Code::unsupported, "device is cuda: this machine has no CUDA device");
  }
  if (error == cudaErrorInsufficientDriver) {
    (void)cudaGetLastError();
    return Status(Code::unsupported, "device is cuda: " + about_driver());
  }
  return Status(Code::unsupported, status_of(error, "device is cuda").message());
}

}  // namespace

Result<DeviceInfo> device_info(int index) {
  static std::mutex mutex;
  static std::map<int, DeviceInfo> known;  // a device does not change; failures are tried again
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(index); found != known.end()) return found->second;
  const Result<int> count = device_count();
  if (!count.ok()) return count.status();
  if (index < 0 || index >= count.value()) {
    return Status(Code::invalid_argument, "device_index is " + std::to_string(index) + ": there are " +
                                              std::to_string(count.value()) + " CUDA devices");
  }
  Result<DeviceInfo> device = ask(index);
  if (device.ok()) known.emplace(index, device.value());
  return device;
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> found;
  const Result<int> count = device_count();
  for (int i = 0; count.ok() && i < count.value(); ++i) {
    Result<DeviceInfo> device = device_info(i);
    if (device.ok()) found.push_back(device.value());
  }
  return found;
}

}  // namespace tconv::cuda
