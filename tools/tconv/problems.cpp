#include "problems.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>

#include "command.hpp"
#include "files.hpp"

namespace tconv::cli {
namespace {

using core::DType;
using core::Problem;

std::string_view trimmed(std::string_view s) {
  const std::size_t first = s.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = s.find(separator);
    parts.push_back(s.substr(0, end));
    if (end == std::string_view::npos) return parts;
    s.remove_prefix(end + 1);
  }
}

Problem checked(const Problem& problem) {
  demand(validate(problem));
  return problem;
}

using CsvRow = std::map<std::string, std::string, std::less<>>;

const std::string& cell(const CsvRow& row, const char* column) {
  const auto found = row.find(column);
  if (found == row.end()) throw UsageError(fmt::format("there is no column {}", column));
  return found->second;
}

int64_t integer(const CsvRow& row, const char* column) {
  const std::string& text = cell(row, column);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(fmt::format("{} is '{}', not a whole number", column, text));
  }
  return value;
}

NamedProblem layer(const CsvRow& row) {
  Problem p;
  p.n = integer(row, "batch");
  p.cin = integer(row, "cin");
  p.cout = integer(row, "cout");
  p.l = integer(row, "length");
  p.k = integer(row, "k");
  p.stride = integer(row, "stride");
  p.padding = integer(row, "padding");
  p.output_padding = integer(row, "output_padding");
  p.dilation = integer(row, "dilation");
  p.groups = integer(row, "groups");
  const std::string& bias = cell(row, "bias");
  if (bias != "True" && bias != "False") throw UsageError("bias is '" + bias + "', not True or False");
  p.has_bias = bias == "True";
  static const std::map<std::string, DType, std::less<>> dtypes = {
      {"fp32", DType::f32}, {"fp64", DType::f64}, {"fp16", DType::f16}, {"bf16", DType::bf16}};
  const auto dtype = dtypes.find(cell(row, "dtype"));
  if (dtype == dtypes.end()) throw UsageError("dtype '" + cell(row, "dtype") + "' is not known");
  p.dtype = dtype->second;
  return {checked(p), cell(row, "model") + " " + cell(row, "layer")};
}

// Calls take(line, number) for every line; its refusals are reported with the place.
template <class F>
void each_line(const std::string& path, const std::string& text, F&& take) {
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    try {
      take(line, number);
    } catch (const UsageError& e) {
      throw UsageError(fmt::format("{}, line {}: {}", path, number, e.what()));
    }
  }
}

}  // namespace

Problem read_problem(const std::string& text) {
  return checked(demand(core::parse(text)));
}

std::vector<NamedProblem> parse_problem_lines(const std::string& path, const std::string& text) {
  std::vector<NamedProblem> problems;
  each_line(path, text, [&](std::string_view line, int) {
    const std::size_t comment = line.find('#');
    const std::string_view words = trimmed(line.substr(0, comment));
    if (words.empty()) return;
    const std::string_view name =
        comment == std::string_view::npos ? std::string_view() : trimmed(line.substr(comment + 1));
    problems.push_back({read_problem(std::string(words)), std::string(name)});
  });
  return problems;
}

std::vector<NamedProblem> parse_layer_table(const std::string& path, const std::string& text) {
  std::vector<NamedProblem> problems;
  std::vector<std::string_view> columns;
  each_line(path, text, [&](std::string_view line, int) {
    if (trimmed(line).empty()) return;
    const auto cells = split(line, '\t');
    if (columns.empty()) {
      for (const std::string_view name : cells) columns.push_back(trimmed(name));
      return;
    }
    if (cells.size() != columns.size()) {
      throw UsageError(fmt::format("{} cells where the first line has {}", cells.size(), columns.size()));
    }
    CsvRow row;
    for (std::size_t i = 0; i < cells.size(); ++i) row.emplace(columns[i], trimmed(cells[i]));
    problems.push_back(layer(row));
  });
  return problems;
}

std::vector<NamedProblem> read_problems(const std::string& path) {
  Input file = demand(Input::open(path));
  const std::string text = demand(file.read_rest());
  const std::string first = text.substr(0, text.find('\n'));
  const bool table = first.find('\t') != std::string::npos && first.find("cin") != std::string::npos;
  auto problems = table ? parse_layer_table(file.path(), text) : parse_problem_lines(file.path(), text);
  if (problems.empty()) throw UsageError(file.path() + ": holds no problem");
  return problems;
}

std::vector<NamedProblem> read_problems_given(const std::vector<std::string>& texts) {
  if (texts.size() > 1) {
    const std::string hint = quoting_hint(texts);
    if (!hint.empty()) throw UsageError(hint);
  }
  std::vector<NamedProblem> problems;
  for (const std::string& text : texts) problems.push_back({read_problem(text), ""});
  return problems;
}

std::string quoting_hint(const std::vector<std::string>& words) {
  const std::string together = fmt::format("{}", fmt::join(words, " "));
  if (!core::parse(together).ok()) return "";
  return fmt::format("a problem is one argument, in quotes: \"{}\"", together);
}

std::vector<int64_t> output_shape(const Problem& p) {
  switch (p.operation) {
    case core::Operation::transposed:
      return {p.n, p.cout, p.lout()};
    case core::Operation::strided:
      return {p.n, p.cin, p.l};
    case core::Operation::weight:
      return {p.cin, p.cout_per_group(), p.k};
    case core::Operation::bias:
      return {p.cout};
  }
  return {};
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

}  // namespace tconv::cli
