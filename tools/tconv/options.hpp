// Options that subcommands share, so that they have the same meaning and help everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace tconv::cli {

// Only decimal digits, with a minus if `least` is negative: neither octal nor hexadecimal, and never empty.
CLI::Validator whole_number(int64_t least, uint64_t most);
// A finite decimal number.
CLI::Validator real_number(double least, double most);

template <class T>
CLI::Option* add_whole(CLI::App& sub, const char* name, T& value, int64_t least, uint64_t most,
                       const char* description) {
  return sub.add_option(name, value, description)->type_name("N")->check(whole_number(least, most));
}
CLI::Option* add_real(CLI::App& sub, const char* name, double& value, double least, double most,
                      const char* description);

// Limits that keep sums of counts, and waiting times, far from the ends of their types.
inline constexpr uint64_t kMostProblems = uint64_t{1} << 62;
inline constexpr uint64_t kMostSize = INT64_MAX;

// Text that must not be empty, as it would be from an unset variable.
CLI::Validator not_empty();
// A member of a short list.
CLI::Validator one_of(std::vector<std::string> names);
CLI::Option* add_file(CLI::App& sub, const char* name, std::string& path, const char* description);
CLI::Option* add_device(CLI::App& sub, std::string& device);  // where kernels run
CLI::Option* add_kernel(CLI::App& sub, std::string& kernel);  // one
CLI::Option* add_threads(CLI::App& sub, int& threads);
CLI::Option* add_json(CLI::App& sub, bool& json);
// Sets TCONV_SIMD, which the library reads at the first use of a vector.
CLI::Option* add_simd(CLI::App& sub, std::string& target);

// Refuses a name that is not in this build's list of kernels, with a message.
void demand_kernel(const std::string& what, const std::string& name);

std::vector<std::string> split_at_commas(const std::string& text);

}  // namespace tconv::cli
