// Problems from the command line and from files.
#pragma once

#include <string>
#include <vector>

#include "core/problem.hpp"

namespace tconv::cli {

struct NamedProblem {
  core::Problem problem;
  std::string name;  // a layer's name, or empty
};

// One problem in its text form, valid.
core::Problem read_problem(const std::string& text);
// Several problems. Words that form one problem only together are refused with a hint.
std::vector<NamedProblem> read_problems_given(const std::vector<std::string>& texts);

// The hint for words that are one problem which the shell split up; empty if they are not.
std::string quoting_hint(const std::vector<std::string>& words);

// Of the operation's own output.
std::vector<int64_t> output_shape(const core::Problem& problem);
std::string shape_text(const std::vector<int64_t>& shape);  // "(1, 6, 40)"

// A file of problem lines (# begins a comment; a comment behind a problem is its name), or a table with tab
// characters whose first line names the columns, as tests/shapes/layers.tsv: n (batch), cin, cout, k, stride,
// padding, output_padding, dilation, groups, bias, length, dtype (fp32, fp16, bf16, fp64). A refusal names
// the file and the line. "-" is standard input.
std::vector<NamedProblem> read_problems(const std::string& path);

// The parts of read_problems: of the file's whole text.
std::vector<NamedProblem> parse_problem_lines(const std::string& path, const std::string& text);
std::vector<NamedProblem> parse_layer_table(const std::string& path, const std::string& text);

}  // namespace tconv::cli
