// Status codes, and the message of each thread's last failure.
#include <string>

#include "capi/convert.hpp"

namespace tconv::capi {
namespace {

// words: the fixed message for when there is no memory for the text.
struct Message {
  std::string text;
  const char* words = nullptr;
};
thread_local Message t_message;

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

void keep(const char* text, const char* words) noexcept {
  t_message.words = nullptr;
  try {
    t_message.text = text;
  } catch (...) {
    t_message.words = words;
  }
}

}  // namespace

tconv_status report(const core::Status& status) noexcept {
  if (!status.ok()) keep(status.message().c_str(), "the host is out of memory for a message");
  return code_of(status.code());
}

tconv_status report_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    t_message.words = "the host is out of memory";
    return TCONV_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    keep(e.what(), "an exception, and the host is out of memory for its message");
  } catch (...) {
    keep("an unknown exception", "an unknown exception");
  }
  return TCONV_INTERNAL_ERROR;
}

}  // namespace tconv::capi

const char* tconv_last_error(void) {
  using tconv::capi::t_message;
  return t_message.words != nullptr ? t_message.words : t_message.text.c_str();
}

const char* tconv_status_name(int32_t status) {
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
