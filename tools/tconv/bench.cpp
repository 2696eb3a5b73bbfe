// tconv bench: how long a problem takes, next to the floor that the same run measures.
#include "bench.hpp"

#include <fmt/core.h>

#include "bench_run.hpp"
#include "command.hpp"
#include "devices.hpp"
#include "json.hpp"
#include "modes.hpp"
#include "options.hpp"
#include "problems.hpp"
#include "progress.hpp"
#include "table.hpp"

namespace tconv::cli {
namespace {

constexpr double kSeconds = 0.3;
constexpr const char* kExamples =
    "Examples:\n"
    "  tconv bench --seconds 1 --threads 2 \"n1 ci512 co256 l800 k16 s8 p4 bias f32\"\n"
    "  tconv bench --file tests/shapes/layers.tsv --kernel cpu.dense --simd SSE4\n"
    "  tconv bench --model --mode ieee,f16 \"n1 ci16 co16 l300 k4 s2 p1 f32\" --save model.json "
    "--no-clobber\n"
    "  tconv bench --device cuda --random-large 40 --seed 1 --least-mb 200 --most-mb 800 --most-tflop 1\n"
    "  tconv bench --random-large 3 --list --json";

Table make_table() {
  return Table({{"problem", "problem"},
                {"name", ""},
                {"kernel", "kernel"},
                {"weights", "weights"},
                {"seconds", "median ms", true},
                {"spread", "spread", true},
                {"calls", ""},
                {"gflops", "GFLOP/s", true},
                {"gbps", "GB/s", true},
                {"floor_seconds", "floor ms", true},
                {"bound_by", "bound by"},
                {"fma_gflops", ""},
                {"copy_gbps", ""},
                {"share", "of floor", true}});
}

Cell milliseconds(double seconds) {
  return {figure(seconds * 1e3).text, Json(seconds)};
}

void add_rows(Table& table, const NamedProblem& named, const Measured& m) {
  const core::Work work = work_of(named.problem);
  const Floor floor = floor_of(work, m.rates);
  for (const Timing& t : m.timings) {
    const double share = t.median > 0 ? floor.seconds() / t.median : 0;
    table.add({text(named.problem), named.name, m.kernel, t.weights, milliseconds(t.median),
               Cell(percent_text(t.spread()), Json(t.spread())), t.calls, figure(work.flops / t.median / 1e9),
               figure(work.bytes / t.median / 1e9), milliseconds(floor.seconds()), floor.binds(),
               figure(m.rates.gflops), figure(m.rates.gbps), Cell(percent_text(share), Json(share))});
  }
}

// The rows from this one on, as elements of one array, so that a run that is stopped keeps what it measured.
void print_rows(const Table& table, std::size_t from) {
  for (std::size_t row = from; row < table.rows(); ++row) {
    fmt::print("{}{}", row == 0 ? "[" : ",\n ", table.json(row).dump());
  }
  flush_output();
}

int bench_problems(const BenchArguments& a) {
  if (a.problems.empty() == a.file.empty()) throw UsageError("bench needs either a problem or --file");
  const std::vector<NamedProblem> problems =
      a.file.empty() ? read_problems_given(a.problems) : read_problems(a.file);
  const auto target = demand(target_of(a.device, a.threads, 0));
  const double seconds = a.seconds > 0 ? a.seconds : kSeconds;
  Table table = make_table();
  Progress progress;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const NamedProblem& named = problems[i];
    progress.show(fmt::format("{} of {}: {}", i + 1, problems.size(), text(named.problem)));
    if (named.problem.output_elements() == 0) {
      throw UsageError(text(named.problem) + ": has no output to compute");
    }
    const auto measured = measure(named.problem, a.kernel, *target, seconds);
    if (!measured.ok()) {
      const core::Status& why = measured.status();
      demand(core::Status(why.code(), text(named.problem) + ": " + why.message()));
    }
    const std::size_t before = table.rows();
    add_rows(table, named, measured.value());
    progress.clear();
    if (a.json) print_rows(table, before);
  }
  if (a.json) {
    fmt::print("{}]\n", table.rows() == 0 ? "[" : "");
    return 0;
  }
  fmt::print("{}", table.text());
  fmt::print(
      "\nspread: the middle half of the calls, against the median; floor: the least time that the arithmetic "
      "or "
      "the bytes take here; of floor: floor / median\n");
  return 0;
}

int bench(const BenchArguments& a) {
  const bool large = a.random_large > 0;
  if (large && (a.model || !a.problems.empty() || !a.file.empty())) {
    throw UsageError("--random-large draws its problems: no problem, --file or --model beside it");
  }
  if (!large && a.list) throw UsageError("--list is for --random-large");
  if (a.save == "-") throw UsageError("--save writes a file: --json prints the same on standard output");
  if (a.no_clobber && a.save.empty()) throw UsageError("--no-clobber is for --save");
  if (!large && !a.model && !a.save.empty()) throw UsageError("--save is for --random-large and --model");
  if (!large && !a.model && !a.modes.empty()) throw UsageError("--mode is for --random-large and --model");
  if ((large || a.model) && !a.kernel.empty()) {
    throw UsageError("--kernel: --random-large and --model measure the planner's choice");
  }
  if (a.model && !a.problems.empty() && !a.file.empty()) throw UsageError("--model: problems or --file");
  return large ? bench_large(a) : a.model ? bench_model(a) : bench_problems(a);
}

void add_large_options(CLI::App& sub, BenchArguments& a) {
  const char* group = "Large random problems";
  add_whole(sub, "--random-large", a.random_large, 1, 1'000'000, "This many of them")->group(group);
  add_whole(sub, "--seed", a.seed, 0, UINT64_MAX, "Seed of the problems")
      ->capture_default_str()
      ->group(group);
  add_real(sub, "--least-mb", a.least_mb, 1e-6, 1e12, "x and y together take at least this many MB")
      ->capture_default_str()
      ->group(group);
  add_real(sub, "--most-mb", a.most_mb, 1e-6, 1e12, "x and y together take at most this many MB")
      ->capture_default_str()
      ->group(group);
  add_real(sub, "--most-tflop", a.most_tflop, 1e-12, 1e12, "A problem has at most this many 10^12 operations")
      ->capture_default_str()
      ->group(group);
  sub.add_flag("--list", a.list, "Print the problems and measure nothing")->group(group);
}

}  // namespace

Command bench_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("bench", "Time problems, next to the floor measured in the same run");
  auto a = std::make_shared<BenchArguments>();
  sub->add_option("problem", a->problems,
                  "Problems, each in quotes, e.g. \"n1 ci512 co256 l800 k16 s8 p4 bias f32\"");
  add_file(*sub, "--file", a->file, "Problem lines, or a table of layers; - for standard input");
  add_device(*sub, a->device);
  add_kernel(*sub, a->kernel);
  add_threads(*sub, a->threads);
  add_simd(*sub, a->simd);
  add_real(
      *sub, "--seconds", a->seconds, 0.001, 600,
      "Seconds for each kind of weights, or each kernel; default 0.3, with --random-large and --model 0.1");
  sub->add_flag(
      "--model", a->model,
      "Compare predictions with measurements, and the choice with every other kernel; without problems "
      "over tests/shapes/layers.tsv");
  sub->add_option("--mode", a->modes,
                  "With --random-large and --model: some of tf32,ieee,f16,bf16,f64, separated by commas")
      ->type_name("MODES")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(mode_names()));
  add_file(*sub, "--save", a->save, "With --random-large and --model: also write the JSON to this file");
  sub->add_flag("--no-clobber", a->no_clobber, "Refuse to replace an existing --save file");
  add_large_options(*sub, *a);
  add_json(*sub, a->json);
  sub->footer(kExamples);
  return {sub, [a] { return bench(*a); }};
}

}  // namespace tconv::cli
