// PyTorch's own kernels, on a GPU, for products whose plan is the slow path there.
#pragma once

#include <optional>

#include "views.hpp"

namespace tconv::torch_binding {

// Of the problem in `key`; y (n, cout, lout) or (cout, lout), x (n, cin, l) or (cin, l).
Tensor pytorch_strided(const PlanKey& key, const Tensor& y, const Tensor& weight,
                       const std::optional<Tensor>& bias);
Tensor pytorch_weight(const PlanKey& key, const Tensor& x, const Tensor& y);

// On any device.
Tensor pytorch_bias(const Tensor& y);

}  // namespace tconv::torch_binding
