#include "json.hpp"

#include <fmt/core.h>

#include <cmath>

namespace tconv::cli {

Json::Json(double value) : text_(std::isfinite(value) ? fmt::format("{:.6g}", value) : "null") {}

std::string Json::quoted(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
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
