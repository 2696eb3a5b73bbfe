#include "json.hpp"

#include <fmt/format.h>

#include <cmath>

#include "words.hpp"

namespace tconv::cli {

Json::Json(double value) : text_(std::isfinite(value) ? fmt::format("{}", value) : "null") {}

Json::Json(const std::vector<int64_t>& values) : text_(fmt::format("[{}]", fmt::join(values, ", "))) {}

std::string Json::quoted(std::string_view value) {
  std::string out = "\"";
  for (const char c : valid_utf8(value)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace tconv::cli
