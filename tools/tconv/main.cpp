#include <fmt/core.h>

#include <new>
#include <system_error>

#include "command.hpp"
#include "files.hpp"
#include "tconv/tconv.h"
#include "usage.hpp"
#include "words.hpp"

namespace tconv::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  tconv help plan\n"
    "  tconv plan \"n1 ci512 co256 l800 k16 s8 p4 bias f32\"\n"
    "  tconv check --random 100 --seed 7\n"
    "A problem is one line of text, in quotes: samples n, channels in and out ci and co, length l, kernel "
    "size k,\n"
    "stride s, padding p, output_padding op, dilation d, groups g, bias, and a type (docs/problem-text.md).";

int command_line(int argc, char** argv) {
  CLI::App app("Transposed 1-D convolution: inspect, check, measure and run it.", "tconv");
  // Evaluated only when needed: it reads the SIMD target, which --simd must set first.
  app.set_version_flag(
      "--version", [] { return std::string(tconv_build_info()); },
      "Print the version and what this build holds");
  app.require_subcommand(1);
  app.footer(kExamples);
  const Command commands[] = {info_command(app),  plan_command(app), check_command(app),
                              bench_command(app), run_command(app),  help_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::CallForVersion&) {
    fmt::print("{}\n", tconv_build_info());
    return 0;
  } catch (const CLI::ParseError& e) {
    throw UsageError(usage_words(app, e));
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return 0;
}

// The exit status; if it is not 0, there is a message on standard error.
int run(int argc, char** argv) {
  try {
    const int status = command_line(argc, argv);
    flush_output();
    return status;
  } catch (const UsageError& e) {
    say(std::string("tconv: ") + e.what());
    return 2;
  } catch (const std::bad_alloc&) {
    say("tconv: out of memory");
  } catch (const std::system_error& e) {
    // fmt's message for a failed print does not say where.
    const bool print = std::ferror(stdout) != 0;
    say(print ? "tconv: standard output: cannot be written: " + e.code().message()
              : std::string("tconv: ") + e.what());
  } catch (const std::exception& e) {
    say(std::string("tconv: ") + e.what());
  }
  return 1;
}

}  // namespace
}  // namespace tconv::cli

int main(int argc, char** argv) {
  tconv::cli::keep_standard_streams_apart();
  tconv::cli::clean_up_at_signals();
  return tconv::cli::run(argc, argv);
}
