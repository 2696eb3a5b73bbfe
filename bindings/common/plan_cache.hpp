// Plans by problem, for bindings. Making a plan costs microseconds and finding one a fraction of one; a cache
// is bounded in bytes, and the plan least recently used goes first. Its C API is tconv/cache.h.
//
// Safe from any thread: plans are made outside of the lock (two threads that miss the same one make it
// twice), and a plan that is in use outlives its entry. Safe across fork(): a child begins with empty caches,
// whatever other threads were doing at the time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "tconv/tconv.hpp"

namespace tconv::bindings {

struct PlanKey {
  tconv_problem problem;
  int32_t device;        // tconv_device_kind
  int32_t device_index;  // CUDA ordinal, else 0
  int64_t threads;       // CPU threads, else 0

  bool operator==(const PlanKey& other) const;
};
static_assert(std::has_unique_object_representations_v<PlanKey>, "compared and hashed as bytes");

// A packed layout, shared by the cached plans that read it. Its id is unique in this process and in its
// children, so packed weights can be kept under it. A layout whose last plan has gone gets a new id when it
// comes back, and its weights are packed again.
struct Layout {
  int64_t id;
};

struct CachedPlan {
  CachedPlan(const PlanKey& key, tconv::Plan made);

  tconv::Plan plan;
  int64_t lout;
  std::size_t packed_bytes;
  std::size_t workspace_raw;     // with raw weights
  std::size_t workspace_packed;  // with packed ones
  bool slow_path;     // on a GPU, by a kernel that takes every problem: the framework's own is faster
  std::size_t bytes;  // of memory that the entry holds
  std::shared_ptr<const Layout> layout;  // null if the operation reads no weights

  int64_t packed_id() const { return layout ? layout->id : 0; }
};

struct CacheUse {
  int64_t plans, bytes, layouts;
};

class PlanCache {
 public:
  // A plan takes about 6 kB, a vocoder has under ten layers, and a server meets many lengths of each.
  static constexpr std::size_t kCapacity = 16 << 20;

  // prepare: sets options that are not part of the key, e.g. the framework's threads; may be null.
  using Prepare = void (*)(tconv_plan_options& options, void* context);
  explicit PlanCache(std::size_t capacity = kCapacity, Prepare prepare = nullptr, void* context = nullptr);
  ~PlanCache();
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  // Throws what tconv::Plan throws.
  std::shared_ptr<const CachedPlan> get(const PlanKey& key);
  CacheUse use();

 private:
  class Entries;
  Entries& entries();

  const std::size_t capacity_;
  const Prepare prepare_;
  void* const context_;
  std::atomic<Entries*> entries_;
};

}  // namespace tconv::bindings
