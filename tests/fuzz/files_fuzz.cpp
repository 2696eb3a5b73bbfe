// Files of problems, as lines and as a table: refused in words, or a list of valid problems.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "command.hpp"
#include "problems.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace tconv;
  const std::string content(reinterpret_cast<const char*>(data), size);
  for (const auto parse : {cli::parse_problem_lines, cli::parse_layer_table}) {
    try {
      for (const cli::NamedProblem& named : parse("file", content)) {
        if (!validate(named.problem).ok()) std::abort();
      }
    } catch (const cli::UsageError& e) {
      if (std::string(e.what()).rfind("file, line ", 0) != 0) std::abort();
    }
  }
  return 0;
}
