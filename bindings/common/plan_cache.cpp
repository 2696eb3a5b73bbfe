#include "plan_cache.hpp"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tconv::bindings {
namespace {

std::atomic<int64_t> g_last_layout{0};

// How many forks lie between the process that loaded the library and this one: entries of an earlier process
// may be locked by a thread that does not exist here.
std::atomic<int64_t> g_forks{0};
const int g_registered = pthread_atfork(nullptr, nullptr, [] { g_forks.fetch_add(1); });

struct Hash {
  std::size_t operator()(const PlanKey& key) const {
    uint64_t words[sizeof(PlanKey) / 8];
    std::memcpy(words, &key, sizeof(key));
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (uint64_t w : words) {
      h = (h ^ w) * 0xff51afd7ed558ccdu;
      h ^= h >> 32;
    }
    return h;
  }
};

// Of two kernels, which compute the gradients of weight and bias, either.
bool is_slow(std::string_view kernel) {
  return kernel.find("cuda.simt.plain") != kernel.npos || kernel.starts_with("reference");
}

}  // namespace

class PlanCache::Entries {
 public:
  using Entry = std::shared_ptr<const CachedPlan>;

  explicit Entries(std::size_t capacity) : capacity_(capacity) {}

  const int64_t forks = g_forks.load();

  Entry find(const PlanKey& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    plans_.splice(plans_.begin(), plans_, found->second);
    return found->second->second;
  }

  // Keeps `made` and returns it, or returns what another thread has kept in the meantime.
  Entry keep(const PlanKey& key, std::shared_ptr<CachedPlan> made) {
    List gone;  // destroyed after the lock is released
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = index_.find(key);
    if (found != index_.end()) return found->second->second;
    if (made->packed_bytes > 0) made->layout = layout_of(made->plan.pack_key());
    const std::size_t bytes = made->bytes;
    if (bytes > capacity_) return made;  // planned at every call: little beside such a problem's arithmetic
    plans_.emplace_front(key, std::move(made));
    try {
      index_[key] = plans_.begin();
    } catch (...) {
      plans_.pop_front();
      throw;
    }
    bytes_ += bytes;
    while (bytes_ > capacity_) drop_last(gone);
    return plans_.front().second;
  }

  CacheUse use() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(layouts_, [](const auto& entry) { return entry.second.expired(); });
    return {static_cast<int64_t>(plans_.size()), static_cast<int64_t>(bytes_),
            static_cast<int64_t>(layouts_.size())};
  }

 private:
  using List = std::list<std::pair<PlanKey, Entry>>;

  void drop_last(List& gone) {
    const auto last = std::prev(plans_.end());
    bytes_ -= last->second->bytes;
    index_.erase(last->first);
    gone.splice(gone.end(), plans_, last);
  }

  std::shared_ptr<const Layout> layout_of(std::string_view pack_key) {
    std::weak_ptr<const Layout>& known = layouts_[std::string(pack_key)];
    std::shared_ptr<const Layout> layout = known.lock();
    if (layout) return layout;
    layout = std::make_shared<const Layout>(Layout{++g_last_layout});
    known = layout;
    if (layouts_.size() > 2 * plans_.size() + 64) {
      std::erase_if(layouts_, [](const auto& entry) { return entry.second.expired(); });
    }
    return layout;
  }

  const std::size_t capacity_;
  std::mutex mutex_;
  std::size_t bytes_ = 0;
  List plans_;  // most recently used first
  std::unordered_map<PlanKey, List::iterator, Hash> index_;
  std::unordered_map<std::string, std::weak_ptr<const Layout>> layouts_;  // by pack key
};

PlanCache::PlanCache(std::size_t capacity, Prepare prepare, void* context)
    : capacity_(capacity), prepare_(prepare), context_(context), entries_(new Entries(capacity)) {}

PlanCache::~PlanCache() {
  Entries* last = entries_.load();
  if (last->forks == g_forks.load()) delete last;
}

// The parent's entries are abandoned: they may be locked for ever.
PlanCache::Entries& PlanCache::entries() {
  Entries* current = entries_.load(std::memory_order_acquire);
  if (current->forks == g_forks.load(std::memory_order_relaxed)) return *current;
  auto made = std::make_unique<Entries>(capacity_);
  if (entries_.compare_exchange_strong(current, made.get())) return *made.release();
  return *current;
}

bool PlanKey::operator==(const PlanKey& other) const {
  return std::memcmp(this, &other, sizeof(*this)) == 0;
}

CachedPlan::CachedPlan(const PlanKey& key, tconv::Plan made)
    : plan(std::move(made)),
      lout(plan.problem().output_length()),
      packed_bytes(plan.packed_bytes()),
      workspace_raw(plan.workspace_bytes(false)),
      workspace_packed(plan.workspace_bytes(true)),
      slow_path(key.device == TCONV_CUDA && is_slow(plan.kernel())),
      // The entry, its nodes in the list and in the index, and those of its layout.
      bytes(plan.host_bytes() + sizeof(CachedPlan) + 3 * sizeof(key) + 2 * plan.pack_key().size() + 512) {}

std::shared_ptr<const CachedPlan> PlanCache::get(const PlanKey& key) {
  Entries& plans = entries();
  if (auto found = plans.find(key)) return found;
  tconv::Problem problem;
  static_cast<tconv_problem&>(problem) = key.problem;
  tconv::PlanOptions options;
  options.device = key.device;
  options.device_index = key.device_index;
  options.threads = static_cast<int32_t>(key.threads);
  if (prepare_ != nullptr) prepare_(options, context_);
  return plans.keep(key, std::make_shared<CachedPlan>(key, tconv::Plan(problem, options)));
}

CacheUse PlanCache::use() {
  return entries().use();
}

}  // namespace tconv::bindings
