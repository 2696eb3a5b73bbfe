// Tests of kernels that only Hopper has.
#pragma once

#include "cuda/entries.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {

class Hopper : public Gpu {
 protected:
  core::DeviceInfo device_;
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    device_ = cuda::device_info(0).value();
    if (device_.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  }
};

}  // namespace tconv::gpu_test
