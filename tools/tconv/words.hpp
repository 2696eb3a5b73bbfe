// Text for people: safe to print, and suggestions for misspelt words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tconv::cli {

// The same text in valid UTF-8: bytes that are not become U+FFFD.
std::string valid_utf8(std::string_view text);

// One line that is safe to show on a terminal: control characters, and bytes that are not UTF-8, become \n,
// \t or \xNN.
std::string printable(std::string_view text);

// The candidate that differs from the word in the fewest letters; empty if none is close.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// ": did you mean X?" with the nearest, or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// "one, two and three".
std::string listed(const std::vector<std::string>& names);

// One line on standard error; if that is closed or full, the line is lost, without an error.
void say(std::string_view line);

}  // namespace tconv::cli
