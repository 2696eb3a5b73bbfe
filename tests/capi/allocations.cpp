#include "capi/allocations.hpp"

#include <malloc.h>

#include <cstdlib>
#include <new>

// GCC does not see that these are a pair.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace tconv::test {

thread_local int64_t t_left = -1;
thread_local bool t_once = false;
thread_local std::size_t t_held = 0;

namespace {

std::size_t size_of(void* p) {
  constexpr std::size_t kHeader = 16;
  return malloc_usable_size(p) + kHeader;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (t_left == 0) {
    if (t_once) t_left = -1;
    return nullptr;
  }
  if (t_left > 0) --t_left;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (p != nullptr) t_held += size_of(p);
  return p;
}

void release(void* p) {
  if (p != nullptr) t_held -= size_of(p);
  std::free(p);
}

}  // namespace
}  // namespace tconv::test

using tconv::test::allocate;
using tconv::test::release;

void* operator new(std::size_t bytes) {
  if (void* p = allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (void* p = allocate(bytes, static_cast<std::size_t>(alignment))) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  release(p);
}
void operator delete(void* p, std::size_t) noexcept {
  release(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  release(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  release(p);
}
