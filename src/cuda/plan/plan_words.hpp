// What a plan says of itself, for templates of kernels.
#pragma once

#include <string>
#include <vector>

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// The plan's own functions, which the kernel's members of the same names would hide.
template <class Plan>
std::string words_of_plan(const Plan& plan, const core::Problem& product) {
  return describe(plan, product);
}
template <class Plan>
std::vector<plan::StageLine> stages_of_plan(const Plan& plan, const core::Problem& product) {
  return stages(plan, product);
}
template <class Plan>
std::string maker_in_plan(const Plan& plan, const core::Problem& product, int64_t element) {
  return where(plan, product, element);
}

}  // namespace tconv::cuda
