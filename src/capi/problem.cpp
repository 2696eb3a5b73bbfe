#include <cstring>

#include "capi/convert.hpp"

namespace tconv::capi {
namespace {

thread_local std::string t_message;

tconv_status code_of(core::Code code) {
  switch (code) {
    case core::Code::ok:
      return TCONV_OK;
    case core::Code::invalid_argument:
      return TCONV_INVALID_ARGUMENT;
    case core::Code::invalid_problem:
      return TCONV_INVALID_PROBLEM;
    case core::Code::unsupported:
      return TCONV_UNSUPPORTED;
    case core::Code::out_of_memory:
      return TCONV_OUT_OF_MEMORY;
    case core::Code::device_error:
      return TCONV_DEVICE_ERROR;
    case core::Code::internal_error:
      return TCONV_INTERNAL_ERROR;
  }
  return TCONV_INTERNAL_ERROR;
}

}  // namespace

tconv_status report(const core::Status& status) {
  if (!status.ok()) {
    try {
      t_message = status.message();
    } catch (...) {
      t_message.clear();
    }
  }
  return code_of(status.code());
}

core::Problem to_core(const tconv_problem& c) {
  core::Problem p;
  p.operation = static_cast<core::Operation>(c.operation);
  p.dtype = static_cast<core::DType>(c.dtype);
  p.precision = static_cast<core::Precision>(c.precision);
  p.has_bias = c.has_bias != 0;
  p.n = c.n;
  p.cin = c.cin;
  p.cout = c.cout;
  p.l = c.l;
  p.k = c.k;
  p.stride = c.stride;
  p.padding = c.padding;
  p.output_padding = c.output_padding;
  p.dilation = c.dilation;
  p.groups = c.groups;
  p.x_contiguous = c.x_contiguous != 0;
  if (!p.x_contiguous) p.x_stride = {c.x_stride[0], c.x_stride[1], c.x_stride[2]};
  return p;
}

tconv_problem to_c(const core::Problem& p) {
  tconv_problem c;
  tconv_problem_init(&c);
  c.operation = static_cast<int32_t>(p.operation);
  c.dtype = static_cast<int32_t>(p.dtype);
  c.precision = static_cast<int32_t>(p.precision);
  c.has_bias = p.has_bias ? 1 : 0;
  c.n = p.n;
  c.cin = p.cin;
  c.cout = p.cout;
  c.l = p.l;
  c.k = p.k;
  c.stride = p.stride;
  c.padding = p.padding;
  c.output_padding = p.output_padding;
  c.dilation = p.dilation;
  c.groups = p.groups;
  c.x_contiguous = p.x_contiguous ? 1 : 0;
  for (int i = 0; i < 3; ++i) c.x_stride[i] = p.x_stride[i];
  return c;
}

core::Status check_problem_pointer(const tconv_problem* problem) {
  if (problem == nullptr) return refuse("problem is null");
  if (problem->struct_size != sizeof(tconv_problem)) {
    return refuse("problem->struct_size is " + std::to_string(problem->struct_size) +
                  ": tconv_problem_init sets it, to " + std::to_string(sizeof(tconv_problem)));
  }
  return {};
}

}  // namespace tconv::capi

using tconv::capi::check_problem_pointer;
using tconv::capi::guarded;
using tconv::capi::refuse;
using tconv::core::Status;

void tconv_problem_init(tconv_problem* problem) {
  if (problem == nullptr) return;
  std::memset(problem, 0, sizeof(*problem));
  problem->struct_size = sizeof(*problem);
  problem->x_contiguous = 1;
  problem->n = problem->stride = problem->dilation = problem->groups = 1;
}

tconv_status tconv_problem_parse(const char* text, tconv_problem* problem) {
  return guarded([&]() -> Status {
    if (text == nullptr) return refuse("text is null");
    if (problem == nullptr) return refuse("problem is null");
    auto parsed = tconv::core::parse(text);
    if (parsed.ok()) *problem = tconv::capi::to_c(parsed.value());
    return parsed.status();
  });
}

tconv_status tconv_problem_text(const tconv_problem* problem, char* text, size_t capacity, size_t* length) {
  return guarded([&]() -> Status {
    Status status = check_problem_pointer(problem);
    if (!status.ok()) return status;
    if (text == nullptr && capacity > 0) return refuse("text is null");
    const std::string line = tconv::core::text(tconv::capi::to_core(*problem));
    if (length != nullptr) *length = line.size();
    if (capacity == 0) return {};
    if (capacity <= line.size()) {
      return refuse("capacity is " + std::to_string(capacity) + ": the text needs " +
                    std::to_string(line.size() + 1));
    }
    std::memcpy(text, line.c_str(), line.size() + 1);
    return {};
  });
}

tconv_status tconv_problem_check(const tconv_problem* problem) {
  return guarded([&]() -> Status {
    Status status = check_problem_pointer(problem);
    return status.ok() ? validate(tconv::capi::to_core(*problem)) : status;
  });
}

tconv_status tconv_output_length(const tconv_problem* problem, int64_t* lout) {
  return guarded([&]() -> Status {
    Status status = check_problem_pointer(problem);
    if (!status.ok()) return status;
    if (lout == nullptr) return refuse("lout is null");
    const tconv::core::Problem p = tconv::capi::to_core(*problem);
    status = validate(p);
    if (status.ok()) *lout = p.lout();
    return status;
  });
}

const char* tconv_last_error(void) {
  return tconv::capi::t_message.c_str();
}

const char* tconv_status_name(tconv_status status) {
  switch (status) {
    case TCONV_OK:
      return "ok";
    case TCONV_INVALID_ARGUMENT:
      return "invalid argument";
    case TCONV_INVALID_PROBLEM:
      return "invalid problem";
    case TCONV_UNSUPPORTED:
      return "unsupported";
    case TCONV_OUT_OF_MEMORY:
      return "out of memory";
    case TCONV_DEVICE_ERROR:
      return "device error";
    case TCONV_INTERNAL_ERROR:
      return "internal error";
  }
  return "unknown status";
}
