// Words for people: safe to print, and near to what they meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tconv::cli {

// The same text in valid UTF-8: bytes that are not become U+FFFD.
std::string valid_utf8(std::string_view text);

// One line that a terminal shows as it is: control characters become \n, \t or \xNN, and so do bytes that are
// not UTF-8.
std::string printable(std::string_view text);

// The candidate that differs from the word in the fewest letters; empty where none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// ": did you mean X?" with the nearest, or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// "one, two and three".
std::string listed(const std::vector<std::string>& names);

// One line on standard error, whatever that is: a closed or full one is no reason to fail.
void say(std::string_view line);

}  // namespace tconv::cli
