#include <fmt/core.h>

#include "command.hpp"
#include "tconv/tconv.h"

int main(int argc, char** argv) {
  using namespace tconv::cli;
  CLI::App app("Transposed 1-D convolution: inspect, check, measure and run it.", "tconv");
  app.set_version_flag("--version", tconv_build_info());
  app.require_subcommand(1);
  const Command commands[] = {info_command(app), plan_command(app), check_command(app), bench_command(app),
                              run_command(app)};
  try {
    app.parse(argc, argv);
    for (const Command& command : commands) {
      if (command.app->parsed()) return command.run();
    }
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    fmt::print("{}", app.help("", CLI::AppFormatMode::All));
    return 0;
  } catch (const CLI::CallForVersion&) {
    fmt::print("{}\n", tconv_build_info());
    return 0;
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "tconv: {}\n", e.what());
    return 2;
  } catch (const UsageError& e) {
    fmt::print(stderr, "tconv: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "tconv: {}\n", e.what());
    return 1;
  }
  return 0;
}
