// tconv help: another way to ask for --help.
#include <fmt/core.h>

#include "command.hpp"
#include "words.hpp"

namespace tconv::cli {
namespace {

int help(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
    if (sub->get_name() != name) continue;
    fmt::print("{}", app.get_formatter()->make_help(sub, "tconv " + name, CLI::AppFormatMode::Normal));
    return 0;
  }
  if (!name.empty()) {
    const std::string meant = did_you_mean(name, names);
    throw UsageError(fmt::format("'{}' is not a command{}", name,
                                 meant.empty() ? ": the commands are " + listed(names) : meant));
  }
  fmt::print("{}", app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
  return 0;
}

}  // namespace

Command help_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("help", "What a command does, its options, and examples");
  auto name = std::make_shared<std::string>();
  sub->add_option("command", *name, "One of the commands; by default they are listed");
  sub->footer("Examples:\n  tconv help\n  tconv help check");
  return {sub, [name, &app] { return help(app, *name); }};
}

}  // namespace tconv::cli
