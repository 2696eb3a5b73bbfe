// The operators' plans, which run on PyTorch's threads: a model's layers alternate between PyTorch's work and
// tconv's, and two pools on the same cores would wait for each other.
#pragma once

#include <memory>

#include "plan_cache.hpp"

namespace tconv::torch_binding {

using bindings::CachedPlan;
using bindings::CacheUse;
using bindings::PlanKey;

// Plans of several CPU threads run on PyTorch's intra-op threads; in a child of fork() on the library's own:
// PyTorch's (GNU OpenMP's) do not survive the fork, and waiting for them would never end.
std::shared_ptr<const CachedPlan> plan_for(const PlanKey& key);
CacheUse cache_use();

}  // namespace tconv::torch_binding
