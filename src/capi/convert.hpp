// Between the C structs and the core's types, and from exceptions to status codes.
#pragma once

#include <new>
#include <string>

#include "core/problem.hpp"
#include "core/status.hpp"
#include "tconv/tconv.h"

namespace tconv::capi {

// Keeps the message for tconv_last_error of this thread and returns the code.
tconv_status report(const core::Status& status);

core::Problem to_core(const tconv_problem& problem);
tconv_problem to_c(const core::Problem& problem);

// Refuses null and a struct_size that no version of the header has had.
core::Status check_problem_pointer(const tconv_problem* problem);

// Runs body (returning core::Status) so that no exception gets out.
template <class Body>
tconv_status guarded(Body&& body) {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report({core::Code::out_of_memory, "the host is out of memory"});
  } catch (const std::exception& e) {
    return report({core::Code::internal_error, e.what()});
  } catch (...) {
    return report({core::Code::internal_error, "an unknown exception"});
  }
}

inline core::Status refuse(std::string message) {
  return {core::Code::invalid_argument, std::move(message)};
}

}  // namespace tconv::capi
