#include "usage.hpp"

#include <fmt/core.h>

#include "core/problem.hpp"
#include "problems.hpp"
#include "words.hpp"

namespace tconv::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-';
}

std::string without_command(const CLI::App& app, const std::vector<std::string>& rest) {
  if (rest.empty()) return "a command is missing: " + listed(command_names(app)) + "; try tconv help";
  const std::string& word = rest.front();
  if (is_option(word)) {
    const std::string meant = did_you_mean(word, option_names(app));
    return fmt::format("'{}' is not an option of tconv itself{}", word,
                       meant.empty() ? ": most options follow a command; try tconv help" : meant);
  }
  const std::string meant = did_you_mean(word, command_names(app));
  return fmt::format("'{}' is not a command{}", word,
                     meant.empty() ? ": the commands are " + listed(command_names(app)) : meant);
}

// What was left over after a command.
std::string unexpected(const CLI::App& sub, const std::vector<std::string>& rest) {
  for (const std::string& word : rest) {
    if (!is_option(word)) continue;
    // --name=value; one dash stands for two.
    std::string name = word.substr(0, word.find('='));
    if (name[1] != '-') name.insert(0, "-");
    const std::string meant = did_you_mean(name, option_names(sub));
    return fmt::format("'{}' is not an option of tconv {}{}", word, sub.get_name(),
                       meant.empty() ? ": tconv help " + sub.get_name() + " lists them" : meant);
  }
  if (const CLI::Option* problem = sub.get_option_no_throw("problem")) {
    std::vector<std::string> words = problem->results();
    words.insert(words.end(), rest.begin(), rest.end());
    const std::string hint = quoting_hint(words);
    if (!hint.empty()) return hint;
  }
  return fmt::format("'{}' was not expected after tconv {}", rest.front(), sub.get_name());
}

}  // namespace

std::string usage_words(const CLI::App& app, const CLI::ParseError& error) {
  const auto subs = app.get_subcommands();
  const std::vector<std::string> rest = app.remaining(true);
  if (subs.empty() && dynamic_cast<const CLI::ValidationError*>(&error) == nullptr) {
    return without_command(app, rest);
  }
  const std::vector<std::string> before = app.remaining();
  if (!before.empty() && is_option(before.front())) return without_command(app, before);
  // A misspelt option is often the reason why a required one is missing.
  const bool left_over = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                         dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (left_over && !subs.empty() && !rest.empty()) return unexpected(*subs.front(), rest);
  const std::string words = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return words;
  const std::string name = words.substr(0, words.find(':'));
  return words.ends_with("missing") ? name + " needs a value" : name + " is given more than once";
}

}  // namespace tconv::cli
