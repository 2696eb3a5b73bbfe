#include "plan_cache.hpp"

#include <cstring>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tconv::torch_binding {
namespace {

// A vocoder has under ten layers, and a server meets many lengths: 1024 plans of about a kilobyte each.
constexpr std::size_t kCapacity = 1024;

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

class Cache {
 public:
  std::shared_ptr<const CachedPlan> get(const PlanKey& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = index_.find(key);
    if (found != index_.end()) {
      plans_.splice(plans_.begin(), plans_, found->second);
      return plans_.front().second;
    }
    plans_.emplace_front(key, std::make_shared<const CachedPlan>(key));
    index_[key] = plans_.begin();
    if (plans_.size() > kCapacity) {
      index_.erase(plans_.back().first);
      plans_.pop_back();
    }
    return plans_.front().second;
  }

 private:
  using List = std::list<std::pair<PlanKey, std::shared_ptr<const CachedPlan>>>;
  std::mutex mutex_;
  List plans_;  // most recently used first
  std::unordered_map<PlanKey, List::iterator, Hash> index_;
};

// A small number for each packed layout met, so that Python can hold packed weights by it.
int64_t id_of(std::string_view pack_key) {
  static std::mutex mutex;
  static std::unordered_map<std::string, int64_t> ids;
  std::lock_guard<std::mutex> lock(mutex);
  return ids.try_emplace(std::string(pack_key), static_cast<int64_t>(ids.size()) + 1).first->second;
}

tconv::PlanOptions options_of(const PlanKey& key) {
  tconv::PlanOptions options;
  options.device = key.device;
  options.device_index = key.device_index;
  options.threads = static_cast<int32_t>(key.threads);
  return options;
}

tconv::Problem problem_of(const PlanKey& key) {
  tconv::Problem problem;
  static_cast<tconv_problem&>(problem) = key.problem;
  return problem;
}

}  // namespace

bool PlanKey::operator==(const PlanKey& other) const {
  return std::memcmp(this, &other, sizeof(*this)) == 0;
}

CachedPlan::CachedPlan(const PlanKey& key)
    : plan(problem_of(key), options_of(key)),
      lout(plan.problem().output_length()),
      packed_id(plan.packed_bytes() == 0 ? 0 : id_of(plan.pack_key())),
      packed_bytes(plan.packed_bytes()),
      workspace_raw(plan.workspace_bytes(false)),
      workspace_packed(plan.workspace_bytes(true)) {}

std::shared_ptr<const CachedPlan> plan_for(const PlanKey& key) {
  static Cache* const cache = new Cache;  // never destroyed: a thread may still run at exit
  return cache->get(key);
}

}  // namespace tconv::torch_binding
