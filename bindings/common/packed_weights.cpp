#include "packed_weights.hpp"

#include <new>

namespace tconv::bindings {

Memory host_memory() {
  constexpr std::align_val_t kAlignment{TCONV_BUFFER_ALIGNMENT};
  return {[](void*, std::size_t bytes) { return ::operator new(bytes, kAlignment, std::nothrow); },
          [](void*, void* memory) { ::operator delete(memory, kAlignment); }, nullptr};
}

const void* PackedLayouts::packed_for(const CachedPlan& cached, void* stream) {
  if (cached.packed_bytes == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);  // while packing too: others wait for the layout
  std::unique_ptr<void, Release>& buffer =
      buffers_.try_emplace(std::string(cached.plan.pack_key()), nullptr, Release{memory_}).first->second;
  if (buffer != nullptr) return buffer.get();
  std::unique_ptr<void, Release> made(memory_.allocate(memory_.context, cached.packed_bytes),
                                      Release{memory_});
  if (made == nullptr) throw tconv::OutOfMemory("packed weights");
  cached.plan.pack(weight_, {static_cast<std::byte*>(made.get()), cached.packed_bytes}, stream);
  buffer = std::move(made);
  return buffer.get();
}

}  // namespace tconv::bindings
