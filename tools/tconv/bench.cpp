// tconv bench: how long a problem takes, beside the floor that the same run measures.
#include <fmt/core.h>

#include "bench_run.hpp"
#include "command.hpp"
#include "devices.hpp"
#include "json.hpp"
#include "problems.hpp"
#include "progress.hpp"
#include "table.hpp"

namespace tconv::cli {
namespace {

struct BenchArguments {
  std::string problem, file, device = "cpu", kernel;
  int threads = 0;
  double seconds = 0.3;
  bool json = false;
};

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
    const double spread = t.median > 0 ? (t.upper - t.lower) / t.median : 0;
    table.add({text(named.problem), named.name, m.kernel, t.weights, milliseconds(t.median),
               Cell(fmt::format("{:.0f}%", spread * 100), Json(spread)), t.calls,
               figure(work.flops / t.median / 1e9), figure(work.bytes / t.median / 1e9),
               milliseconds(floor.seconds()), floor.binds(), figure(m.rates.gflops), figure(m.rates.gbps),
               Cell(fmt::format("{:.0f}%", share * 100), Json(share))});
  }
}

int bench(const BenchArguments& a) {
  if (a.problem.empty() == a.file.empty()) throw UsageError("bench needs either a problem or --file");
  const std::vector<NamedProblem> problems =
      a.file.empty() ? std::vector<NamedProblem>{{read_problem(a.problem), ""}} : read_problems(a.file);
  const auto target = demand(target_of(a.device, a.threads, 0));
  Table table = make_table();
  Progress progress;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const NamedProblem& named = problems[i];
    progress.show(fmt::format("{} of {}: {}", i + 1, problems.size(), text(named.problem)));
    if (named.problem.output_elements() == 0) {
      throw UsageError(text(named.problem) + ": has no output to compute");
    }
    add_rows(table, named, demand(measure(named.problem, a.kernel, *target, a.seconds)));
  }
  progress.clear();
  if (a.json) {
    fmt::print("{}\n", table.json().dump());
    return 0;
  }
  fmt::print("{}", table.text());
  fmt::print("\nspread: the middle half of the calls, against the median; of floor: floor / median\n");
  return 0;
}

}  // namespace

Command bench_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("bench", "Time problems, beside the floor measured in the same run");
  auto a = std::make_shared<BenchArguments>();
  sub->add_option("problem", a->problem, "One problem, e.g. \"n1 ci512 co256 l800 k16 s8 p4 bias f32\"");
  sub->add_option("--file", a->file, "Problem lines, or a table of layers");
  sub->add_option("--device", a->device, "cpu or cuda")->capture_default_str();
  sub->add_option("--kernel", a->kernel, "Force this kernel");
  sub->add_option("--threads", a->threads, "CPU threads; 0: one a core")->check(CLI::Range(0, 4096));
  sub->add_option("--seconds", a->seconds, "To spend on each kind of weights")
      ->check(CLI::Range(0.001, 600.0))
      ->capture_default_str();
  sub->add_flag("--json", a->json, "Print JSON");
  return {sub, [a] { return bench(*a); }};
}

}  // namespace tconv::cli
