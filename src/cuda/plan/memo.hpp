// The last result of a search, for each thread. Planning asks several times for the same plan: each family
// for its own, and the choice among families for all of them.
#pragma once

#include <tuple>
#include <utility>

#include "core/device_info.hpp"
#include "core/problem.hpp"

namespace tconv::cuda {

// Whether plans for one device serve the other: compares everything that models and searches read.
inline bool same_device(const core::DeviceInfo& a, const core::DeviceInfo& b) {
  const auto all = [](const core::DeviceInfo& d) {
    return std::tie(d.sm, d.sm_count, d.shared_per_block, d.shared_per_sm, d.l2_bytes, d.copy_gbps,
                    d.fp32_gflops, d.fp64_gflops, d.tf32_gflops, d.half_gflops);
  };
  return all(a) == all(b);
}

// Calls search(), or returns what it gave this thread last time for the same arguments. It must be a pure
// function of them. Use one object for each kind of search: a static thread_local of the function.
template <class Found>
class Memo {
 public:
  template <class Search>
  const Found& get(const core::Problem& problem, const core::DeviceInfo& device, bool batch_invariant,
                   Search&& search) {
    if (!filled_ || batch_invariant != batch_invariant_ || !(problem == problem_) ||
        !same_device(device, device_)) {
      filled_ = false;
      found_ = search();
      problem_ = problem, device_ = device, batch_invariant_ = batch_invariant;
      filled_ = true;
    }
    return found_;
  }

 private:
  bool filled_ = false, batch_invariant_ = false;
  core::Problem problem_;
  core::DeviceInfo device_;
  Found found_{};
};

}  // namespace tconv::cuda
