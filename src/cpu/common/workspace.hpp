// A run's workspace: what its threads share, then a slot of scratch for each thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cpu/common/round_up.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu {

class Workspace {
 public:
  Workspace(std::size_t slot_bytes, int threads, std::size_t shared_bytes = 0)
      : shared_(aligned(shared_bytes)),
        slot_(aligned(slot_bytes)),
        threads_(static_cast<std::size_t>(threads)) {}

  // What begins in a workspace begins at a multiple of this many bytes.
  static std::size_t aligned(std::size_t bytes) { return round_up<std::size_t>(bytes, 256); }

  std::size_t bytes() const { return shared_ + slot_ * threads_; }

  // task(index, the thread's slot) for every index below count.
  template <class Task>
  void run(const plan::RunContext& context, int64_t count, const Task& task) const {
    context.executor.run(count, [&](int64_t index, int32_t slot) {
      task(index, context.workspace + shared_ + static_cast<std::size_t>(slot) * slot_);
    });
  }
  // The same; returns whether every task returned true.
  template <class Task>
  bool run_all(const plan::RunContext& context, int64_t count, const Task& task) const {
    std::atomic<bool> all{true};
    run(context, count, [&](int64_t index, std::byte* own) {
      if (!task(index, own)) all.store(false, std::memory_order_relaxed);
    });
    return all;
  }

 private:
  std::size_t shared_, slot_, threads_;
};

}  // namespace tconv::cpu
