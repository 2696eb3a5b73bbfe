// Between the C structs and the core's types, and from exceptions to status codes.
#pragma once

#include <string>
#include <utility>

#include "core/problem.hpp"
#include "core/status.hpp"
#include "tconv/tconv.h"

namespace tconv::capi {

// Keeps the message for tconv_last_error of this thread and returns the code.
tconv_status report(const core::Status& status) noexcept;
// The same for the exception that is being handled.
tconv_status report_exception() noexcept;

// The caller's struct, of any version of the header, as the core's type. Refuses null, a wrong struct_size
// and enums out of range.
core::Status take_problem(const tconv_problem* given, core::Problem& problem, const char* name = "problem");
tconv_problem to_c(const core::Problem& problem);

// A field that is 0 or 1.
core::Status check_flag(const char* name, int32_t value);

// Runs body (returning core::Status) so that no exception gets out.
template <class Body>
tconv_status guarded(Body&& body) noexcept {
  try {
    return report(body());
  } catch (...) {
    return report_exception();
  }
}

inline core::Status refuse(std::string message) {
  return {core::Code::invalid_argument, std::move(message)};
}

}  // namespace tconv::capi
