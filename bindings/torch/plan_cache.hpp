// Plans by problem. Making a plan costs microseconds and finding one a fraction of one; the cache is bounded
// in bytes, and the plan least recently used goes first.
//
// Safe from any thread: plans are made outside of the lock (two threads that miss the same one make it
// twice), and a plan that is in use outlives its entry. Safe across fork(): the child begins with an empty
// cache, whatever other threads did at that moment.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "tconv/tconv.hpp"

namespace tconv::torch_binding {

struct PlanKey {
  tconv_problem problem;
  int32_t device;        // tconv_device_kind
  int32_t device_index;  // CUDA ordinal, else 0
  int64_t threads;       // CPU threads, else 0

  bool operator==(const PlanKey& other) const;
};
static_assert(std::has_unique_object_representations_v<PlanKey>, "compared and hashed as bytes");

// A packed layout, shared by the cached plans that read it. Its id is never another layout's, in this process
// or in its children, so that Python can hold packed weights by it; a layout that comes back after its last
// plan has gone has a new id, and is packed anew.
struct Layout {
  int64_t id;
};

struct CachedPlan {
  CachedPlan(const PlanKey& key, tconv::Plan made);

  tconv::Plan plan;
  int64_t lout;
  std::size_t packed_bytes;      // 0: the kernel reads raw weights
  std::size_t workspace_raw;     // with raw weights
  std::size_t workspace_packed;  // with packed ones
  bool slow_path;                // of a GPU: PyTorch's own kernel is faster
  std::size_t bytes;             // of memory that the entry holds
  std::shared_ptr<const Layout> layout;

  int64_t packed_id() const { return layout ? layout->id : 0; }  // 0: raw weights
};

// Throws what tconv::Plan throws.
std::shared_ptr<const CachedPlan> plan_for(const PlanKey& key);

struct CacheUse {
  int64_t plans, bytes, layouts;
};
CacheUse cache_use();

}  // namespace tconv::torch_binding
