// JSON values for output, always valid UTF-8; nothing here parses JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tconv::cli {

class Json {
 public:
  Json() : text_("null") {}
  Json(bool value) : text_(value ? "true" : "false") {}
  Json(int value) : text_(std::to_string(value)) {}
  Json(int64_t value) : text_(std::to_string(value)) {}
  Json(uint64_t value) : text_(std::to_string(value)) {}
  Json(double value);  // all its digits; NaN and infinities become null
  Json(std::string_view value) : text_(quoted(value)) {}
  Json(const std::string& value) : text_(quoted(value)) {}
  Json(const char* value) : text_(quoted(value)) {}
  Json(const std::vector<int64_t>& values);  // an array

  static Json object() { return Json('{'); }
  static Json array() { return Json('['); }
  Json& set(std::string_view key, const Json& value) { return add(quoted(key) + ": " + value.dump()); }
  Json& push(const Json& value) { return add(value.dump()); }

  std::string dump() const { return close_ == 0 ? text_ : text_ + close_; }

 private:
  explicit Json(char open) : text_(1, open), close_(open == '{' ? '}' : ']') {}
  Json& add(const std::string& member) {
    text_ += (text_.size() == 1 ? "" : ", ") + member;
    return *this;
  }
  static std::string quoted(std::string_view value);

  std::string text_;
  char close_ = 0;
};

}  // namespace tconv::cli
