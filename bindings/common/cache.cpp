// tconv/cache.h over the C++ classes.
#include "tconv/cache.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "packed_weights.hpp"
#include "plan_cache.hpp"

using tconv::bindings::CachedPlan;
using tconv::bindings::PackedLayouts;
using tconv::bindings::PlanCache;
using tconv::bindings::PlanKey;

struct tconv_cache {
  tconv_cache(const tconv_plan_options* given, std::size_t bytes)
      : plans(bytes == 0 ? PlanCache::kCapacity : bytes, prepare, this) {
    if (given == nullptr) return;
    // A caller's header may be older, with fewer fields, or newer. An invalid size is left for the library to
    // refuse.
    std::memcpy(static_cast<tconv_plan_options*>(&options), given,
                std::min<std::size_t>(given->struct_size, sizeof options));
    options.struct_size = std::min<uint32_t>(given->struct_size, sizeof options);
    own(options.device_name, device_name);
    own(options.force_kernel, force_kernel);
  }

  static void own(const char*& text, std::string& place) {
    if (text == nullptr) return;
    place = text;
    text = place.c_str();
  }
  static void prepare(tconv_plan_options& options, void* self) {
    options = static_cast<tconv_cache*>(self)->options;
  }

  std::string device_name, force_kernel;
  tconv::PlanOptions options;
  PlanCache plans;
};

struct tconv_cached_plan {
  std::shared_ptr<const CachedPlan> cached;
};

struct tconv_weights {
  PackedLayouts layouts;
};

namespace {

template <class Body>
tconv_status guarded(Body&& body) noexcept {
  try {
    body();
    return TCONV_OK;
  } catch (const tconv::Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return TCONV_OUT_OF_MEMORY;
  } catch (...) {
    return TCONV_INTERNAL_ERROR;
  }
}

PlanKey key_of(const tconv_problem& problem, const tconv_plan_options& options) {
  PlanKey key{};
  key.problem = problem;
  key.device = options.device;
  key.device_index = options.device_index;
  key.threads = options.threads;
  return key;
}

}  // namespace

tconv_status tconv_cache_create(const tconv_plan_options* options, size_t bytes, tconv_cache** cache) {
  return guarded([&] {
    *cache = nullptr;
    *cache = new tconv_cache(options, bytes);
  });
}

void tconv_cache_destroy(tconv_cache* cache) {
  delete cache;
}

tconv_status tconv_cache_get(tconv_cache* cache, const tconv_problem* problem, tconv_cached_plan** cached) {
  return guarded([&] {
    *cached = nullptr;
    *cached = new tconv_cached_plan{cache->plans.get(key_of(*problem, cache->options))};
  });
}

void tconv_cached_plan_release(tconv_cached_plan* cached) {
  delete cached;
}

const tconv_plan* tconv_cached_plan_of(const tconv_cached_plan* cached) {
  return cached->cached->plan.get();
}

tconv_status tconv_weights_create(const void* weight, const tconv_memory* memory, tconv_weights** weights) {
  return guarded([&] {
    *weights = nullptr;
    const tconv::bindings::Memory own =
        memory == nullptr ? tconv::bindings::host_memory()
                          : tconv::bindings::Memory{memory->allocate, memory->release, memory->context};
    *weights = new tconv_weights{PackedLayouts(weight, own)};
  });
}

void tconv_weights_destroy(tconv_weights* weights) {
  delete weights;
}

tconv_status tconv_weights_packed(tconv_weights* weights, const tconv_cached_plan* cached, void* stream,
                                  const void** packed) {
  return guarded([&] { *packed = weights->layouts.packed_for(*cached->cached, stream); });
}
