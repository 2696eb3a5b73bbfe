// Tests on a GPU whose kernels the judge runs.
#pragma once

#include <memory>

#include "gpu/device.hpp"
#include "judge/judge.hpp"

namespace tconv::gpu_test {

class Judged : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto made = judge::cuda_target(0);
    ASSERT_TRUE(made.ok()) << made.status().message();
    target_ = std::move(made.value());
  }

  std::unique_ptr<judge::Target> target_;
};

}  // namespace tconv::gpu_test
