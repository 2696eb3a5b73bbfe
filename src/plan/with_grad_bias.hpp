// A weight problem with a bias on kernels that compute one gradient each: the kernel of the weight, then the
// kernel of the bias, as two calls would run them, so that the bits are the same.
#pragma once

#include <memory>

#include "plan/kernel_entry.hpp"

namespace tconv::plan {

// problem: the weight problem with its bias. The workspace has that of the weight's kernel first.
std::unique_ptr<const Kernel> with_grad_bias(const core::Problem& problem,
                                             std::unique_ptr<const Kernel> weight,
                                             std::unique_ptr<const Kernel> bias);

}  // namespace tconv::plan
