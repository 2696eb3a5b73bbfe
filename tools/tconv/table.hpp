// A table that prints aligned or as JSON: an array of objects.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "json.hpp"

namespace tconv::cli {

struct Cell {
  std::string text;
  Json value;
  Cell(const std::string& t) : text(t), value(t) {}
  Cell(const char* t) : text(t), value(t) {}
  Cell(int64_t v) : text(std::to_string(v)), value(v) {}
  Cell(int v) : text(std::to_string(v)), value(v) {}
  Cell(std::string t, Json v) : text(std::move(t)), value(std::move(v)) {}
};

// A number with about three digits; the JSON keeps them all.
Cell figure(double v);

class Table {
 public:
  struct Column {
    std::string key;     // of the JSON objects
    std::string header;  // empty: not printed as text
    bool right = false;  // aligned to the right, as numbers are
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  std::size_t rows() const { return rows_.size(); }
  std::string text() const;
  Json json() const;
  Json json(std::size_t row) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace tconv::cli
