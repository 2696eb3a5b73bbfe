// What the subcommands share: how they are made, and how they fail.
#pragma once

#include <functional>
#include <stdexcept>

#include "CLI/CLI.hpp"
#include "core/status.hpp"

namespace tconv::cli {

// A subcommand's place in the command line and what it does; run returns the exit status.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

Command info_command(CLI::App& app);
Command plan_command(CLI::App& app);
Command check_command(CLI::App& app);
Command bench_command(CLI::App& app);
Command run_command(CLI::App& app);
Command help_command(CLI::App& app);

struct UsageError : std::runtime_error {  // exit status 2
  using std::runtime_error::runtime_error;
};
struct Failure : std::runtime_error {  // exit status 1
  using std::runtime_error::runtime_error;
};

// Throws what a status that is not ok stands for: what the user gave is UsageError.
void demand(const core::Status& status);
template <class T>
T demand(core::Result<T> result) {
  demand(result.status());
  return std::move(result.value());
}

}  // namespace tconv::cli
