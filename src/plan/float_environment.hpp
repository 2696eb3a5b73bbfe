// Planning computes in the default floating-point environment, whatever the caller's.
#pragma once

#include <cfenv>

namespace tconv::plan {

// The default floating-point environment until the end of the scope: cost models round, and printf rounds
// numbers in the mode of the x87 unit, which core::DefaultFloatEnvironment does not touch.
class PlanningFloatEnvironment {
 public:
  PlanningFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlanningFloatEnvironment() { std::fesetenv(&saved_); }
  PlanningFloatEnvironment(const PlanningFloatEnvironment&) = delete;
  PlanningFloatEnvironment& operator=(const PlanningFloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace tconv::plan
