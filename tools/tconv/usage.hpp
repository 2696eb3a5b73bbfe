// Messages for a command line that could not be parsed.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace tconv::cli {

std::string usage_words(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tconv::cli
