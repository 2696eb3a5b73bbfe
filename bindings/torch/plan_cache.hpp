// Plans by problem. Making a plan costs microseconds and finding one a fraction of one; the cache is bounded,
// and the plan least recently used goes first. Safe from any thread: a plan that is in use outlives its
// entry.
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

struct CachedPlan {
  explicit CachedPlan(const PlanKey& key);

  tconv::Plan plan;
  int64_t lout;
  int64_t packed_id;  // 0: the kernel reads raw weights; equal ids mean interchangeable packed buffers
  std::size_t packed_bytes;
  std::size_t workspace_raw;     // with raw weights
  std::size_t workspace_packed;  // with packed ones
};

// Throws what tconv::Plan throws.
std::shared_ptr<const CachedPlan> plan_for(const PlanKey& key);

}  // namespace tconv::torch_binding
