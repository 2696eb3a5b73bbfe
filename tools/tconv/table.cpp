#include "table.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace tconv::cli {

Cell figure(double v) {
  if (v > 0 && v < 0.01) return {fmt::format("{:.2g}", v), Json(v)};
  const int digits = v >= 100 ? 0 : v >= 10 ? 1 : v >= 1 ? 2 : 3;
  return {fmt::format("{:.{}f}", v, digits), Json(v)};
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = columns_[c].header.size();
    for (const auto& row : rows_) width = std::max(width, row[c].text.size());
    widths.push_back(width);
  }
  std::string out;
  auto line = [&](auto&& text_of) {
    std::string l;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].header.empty()) continue;
      l += fmt::format(fmt::runtime(columns_[c].right ? "{:>{}}  " : "{:<{}}  "), text_of(c), widths[c]);
    }
    out += l.substr(0, l.find_last_not_of(' ') + 1) + "\n";
  };
  line([&](std::size_t c) { return columns_[c].header; });
  for (const auto& row : rows_) line([&](std::size_t c) { return row[c].text; });
  return out;
}

Json Table::json(std::size_t row) const {
  Json object = Json::object();
  for (std::size_t c = 0; c < columns_.size(); ++c) object.set(columns_[c].key, rows_[row][c].value);
  return object;
}

Json Table::json() const {
  Json rows = Json::array();
  for (std::size_t row = 0; row < rows_.size(); ++row) rows.push(json(row));
  return rows;
}

}  // namespace tconv::cli
