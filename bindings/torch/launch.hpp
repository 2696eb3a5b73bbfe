// Memory from PyTorch's allocator, and a plan's run on PyTorch's current stream.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <utility>

#include "plans.hpp"

namespace tconv::torch_binding {

using torch::stable::Tensor;

// A dense tensor of PyTorch's dtype on the device of the plan, of one to three sizes. `what` names it in a
// refusal.
Tensor allocate(const char* what, const PlanKey& key, int32_t dtype, int64_t dim, const int64_t* sizes);

Tensor allocate_bytes(const char* what, const PlanKey& key, std::size_t bytes);

// Room for the alignment that PyTorch's CPU allocator does not give, and the aligned address in it.
std::size_t padded(std::size_t bytes);
void* aligned(void* pointer);

// Runs the plan on operands whose pointers are set. Workspace and stream are added here;
// arguments.packed_weight says whether weights are packed.
void launch(const PlanKey& key, const CachedPlan& cached, tconv_arguments& arguments);

// Packed weights and their layout's id.
std::pair<Tensor, int64_t> pack_weight(const PlanKey& key, const CachedPlan& cached, const Tensor& weight);

// The address of packed weights of the plan's layout; refuses a tensor that is too small for them.
const void* packed_address(const CachedPlan& cached, const Tensor& packed);

}  // namespace tconv::torch_binding
