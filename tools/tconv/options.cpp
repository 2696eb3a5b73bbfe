#include "options.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "command.hpp"
#include "cpu/simd/dispatch.hpp"
#include "plan/registry.hpp"
#include "words.hpp"

namespace tconv::cli {
namespace {

template <class T>
bool parses(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string out_of_range(const std::string& text, auto least, auto most) {
  return fmt::format("{} is out of range: {} to {}", text, least, most);
}

bool is_within(const std::string& text, int64_t least, uint64_t most) {
  int64_t negative = 0;
  if (text.starts_with('-')) return parses(text, negative) && negative >= least;
  uint64_t value = 0;
  return parses(text, value) && value <= most && (least < 0 || value >= static_cast<uint64_t>(least));
}

bool is_whole(const std::string& text) {
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  return text.size() > first && text.find_first_not_of("0123456789", first) == std::string::npos;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const plan::KernelEntry* entry : plan::registry()) names.push_back(entry->name);
  return names;
}

// Why this is not the name of a kernel; empty if it is.
std::string kernel_refusal(const std::string& name) {
  const std::vector<std::string> names = kernel_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return "";
  const std::string meant = did_you_mean(name, names);
  return fmt::format("'{}' is no kernel of this build{}", name,
                     meant.empty() ? ": tconv info lists them" : meant);
}

}  // namespace

CLI::Validator whole_number(int64_t least, uint64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        if (!is_whole(text)) return fmt::format("'{}' is not a whole number", text);
        const std::size_t first = text.starts_with('-') ? 1 : 0;
        if (text[first] == '0' && text.size() > first + 1) {
          return fmt::format("'{}' begins with 0: numbers are decimal, leave it out", text);
        }
        if (is_within(text, least, most)) return {};
        return out_of_range(text, least, most);
      },
      "");
}

CLI::Validator real_number(double least, double most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        double value = 0;
        if (!parses(text, value) || !std::isfinite(value)) return fmt::format("'{}' is not a number", text);
        if (value >= least && value <= most) return {};
        return out_of_range(text, least, most);
      },
      "");
}

CLI::Option* add_real(CLI::App& sub, const char* name, double& value, double least, double most,
                      const char* description) {
  return sub.add_option(name, value, description)->type_name("X")->check(real_number(least, most));
}

CLI::Validator not_empty() {
  return CLI::Validator([](std::string& text) { return std::string(text.empty() ? "it is empty" : ""); }, "");
}

CLI::Validator one_of(std::vector<std::string> names) {
  return CLI::Validator(
      [names = std::move(names)](std::string& text) -> std::string {
        if (std::find(names.begin(), names.end(), text) != names.end()) return {};
        const std::string meant = did_you_mean(text, names);
        return fmt::format("'{}' is none of {}{}", text, listed(names), meant);
      },
      "");
}

CLI::Option* add_file(CLI::App& sub, const char* name, std::string& path, const char* description) {
  return sub.add_option(name, path, description)->type_name("FILE")->check(not_empty());
}

CLI::Option* add_device(CLI::App& sub, std::string& device) {
  return sub.add_option("--device", device, "Where to run: cpu or cuda")
      ->type_name("NAME")
      ->capture_default_str();
}

CLI::Option* add_kernel(CLI::App& sub, std::string& kernel) {
  return sub.add_option("--kernel", kernel, "This kernel instead of the planner's choice")
      ->type_name("NAME")
      ->check(CLI::Validator([](std::string& name) { return kernel_refusal(name); }, ""));
}

CLI::Option* add_threads(CLI::App& sub, int& threads) {
  return add_whole(sub, "--threads", threads, 0, 4096, "CPU threads; 0, the default: one per core");
}

CLI::Option* add_json(CLI::App& sub, bool& json) {
  return sub.add_flag("--json", json, "Print one JSON value instead of text");
}

CLI::Option* add_simd(CLI::App& sub, std::string& target) {
  const CLI::Validator known(
      [](std::string& name) -> std::string {
        const std::vector<std::string>& names = cpu::simd::target_names();
        if (std::find(names.begin(), names.end(), name) != names.end()) return {};
        return fmt::format("'{}' is no SIMD target of this machine and build: these are {}", name,
                           listed(names));
      },
      "");
  return sub
      .add_option_function<std::string>(
          "--simd",
          [&target](const std::string& name) {
            target = name;
            ::setenv("TCONV_SIMD", name.c_str(), 1);
          },
          "CPU kernels use these vector instructions, e.g. AVX2, instead of the machine's best")
      ->type_name("TARGET")
      ->check(known);
}

void demand_kernel(const std::string& what, const std::string& name) {
  const std::string refusal = kernel_refusal(name);
  if (!refusal.empty()) throw UsageError(what + ": " + refusal);
}

std::vector<std::string> split_at_commas(const std::string& text) {
  return CLI::detail::split(text, ',');
}

}  // namespace tconv::cli
