// One layer's weights in every layout that its plans read, each packed once.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "plan_cache.hpp"

namespace tconv::bindings {

// On the plans' device. allocate aligns to TCONV_BUFFER_ALIGNMENT, and returns null if there is no memory.
struct Memory {
  void* (*allocate)(void* context, std::size_t bytes);
  void (*release)(void* context, void* memory);
  void* context;
};
Memory host_memory();

class PackedLayouts {
 public:
  PackedLayouts(const void* weight, const Memory& memory) : weight_(weight), memory_(memory) {}

  // Null if the operation reads no weights. Throws what tconv::Plan throws, OutOfMemory included.
  const void* packed_for(const CachedPlan& cached, void* stream);

 private:
  struct Release {
    Memory memory;
    void operator()(void* p) const { memory.release(memory.context, p); }
  };

  const void* const weight_;
  const Memory memory_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<void, Release>> buffers_;  // by pack key
};

}  // namespace tconv::bindings
