// tconv bench --random-large: large problems drawn at random, each against the floor of the run.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "bench.hpp"
#include "bench_run.hpp"
#include "command.hpp"
#include "devices.hpp"
#include "draw_large.hpp"
#include "progress.hpp"

namespace tconv::cli {
namespace {

constexpr double kSeconds = 0.1;

std::vector<core::Problem> draw(const BenchArguments& a) {
  LargeSpace space{modes_of(a.modes.empty() ? std::vector<std::string>{"tf32"} : a.modes)};
  space.least_bytes = a.least_mb * 1e6;
  space.most_bytes = a.most_mb * 1e6;
  space.most_flops = a.most_tflop * 1e12;
  if (space.least_bytes > space.most_bytes) throw UsageError("--least-mb is above --most-mb");
  std::vector<core::Problem> problems;
  for (int64_t i = 0; i < a.random_large; ++i) {
    judge::Rng rng(a.seed, static_cast<uint64_t>(i));
    const auto problem = draw_large(rng, space);
    if (!problem) {
      throw UsageError(fmt::format("no problem of {:g} to {:g} MB with at most {:g} TFLOP was found",
                                   a.least_mb, a.most_mb, a.most_tflop));
    }
    problems.push_back(*problem);
  }
  return problems;
}

double data_bytes(const core::Problem& p) {
  return static_cast<double>(p.x_elements() + p.y_elements()) * static_cast<double>(size_of(p.dtype));
}

int list(const std::vector<core::Problem>& problems, bool json, const Saved& saved) {
  Json rows = Json::array();
  for (const core::Problem& p : problems) {
    rows.push(Json::object()
                  .set("problem", text(p))
                  .set("data_bytes", data_bytes(p))
                  .set("flops", work_of(p).flops)
                  .set("lout", p.lout()));
    if (!json) fmt::print("{}\n", text(p));
  }
  if (json) fmt::print("{}\n", rows.dump());
  saved.save(rows);
  return 0;
}

// The run: prints a line for each problem as soon as it is measured, and collects the JSON.
class LargeRun {
 public:
  LargeRun(const BenchArguments& a, judge::Target& target, const Saved& saved)
      : a_(a), target_(target), saved_(saved) {
    if (a.json) return;
    fmt::print("{:>9}  {:>6}  {:>9}  {:<10}  {:>8}  {:<20}  {}\n", "median ms", "spread", "floor ms",
               "bound by", "of floor", "kernel", "problem");
    flush_output();
  }

  void measure(const core::Problem& problem) {
    const auto contest = compete(problem, false, target_, a_.seconds > 0 ? a_.seconds : kSeconds);
    Json row = Json::object();
    row.set("problem", text(problem));
    if (!contest.ok()) {
      ++failed_;
      rows_.push(row.set("failed", contest.status().message()));
      if (!a_.json) fmt::print("failed: {}: {}\n", text(problem), contest.status().message());
    } else {
      add(problem, contest.value(), row);
    }
    flush_output();
  }

  int finish() {
    const double mean = geometric_mean(shares_);
    const double least = shares_.empty() ? 0 : *std::min_element(shares_.begin(), shares_.end());
    Json result = result_head("random_large", target_.info());
    result.set("seed", a_.seed).set("least_mb", a_.least_mb).set("most_mb", a_.most_mb);
    result.set("most_tflop", a_.most_tflop).set("geomean_share", mean).set("least_share", least);
    result.set("failed", failed_).set("rows", rows_);
    if (a_.json) {
      fmt::print("{}\n", result.dump());
    } else {
      fmt::print("{} problems of seed {}: {} of the floor (geometric mean), {} at least", a_.random_large,
                 a_.seed, percent_text(mean), percent_text(least));
      fmt::print("{}\n", failed_ > 0 ? fmt::format("; {} failed", failed_) : "");
    }
    saved_.save(result);
    return failed_ > 0 ? 1 : 0;
  }

 private:
  void add(const core::Problem& problem, const Contest& contest, Json& row) {
    const Contender& chosen = contest.contenders[0];
    const Timing& t = chosen.timing;
    const Floor floor = floor_of(work_of(problem), contest.rates);
    const double share = floor.seconds() / t.median;
    shares_.push_back(share);
    row.set("kernel", chosen.kernel).set("weights", t.weights).set("seconds", t.median);
    row.set("spread", t.spread()).set("calls", t.calls).set("floor_seconds", floor.seconds());
    row.set("bound_by", floor.binds()).set("rate_gflops", contest.rates.gflops);
    rows_.push(row.set("copy_gbps", contest.rates.gbps).set("share", share));
    if (a_.json) return;
    fmt::print("{:>9}  {:>6}  {:>9}  {:<10}  {:>8}  {:<20}  {}\n", milliseconds_text(t.median),
               percent_text(t.spread()), milliseconds_text(floor.seconds()), floor.binds(),
               percent_text(share), chosen.kernel, text(problem));
  }

  const BenchArguments& a_;
  judge::Target& target_;
  const Saved& saved_;
  Json rows_ = Json::array();
  std::vector<double> shares_;
  int failed_ = 0;
};

}  // namespace

int bench_large(const BenchArguments& a) {
  const std::vector<core::Problem> problems = draw(a);
  const Saved saved(a);
  if (a.list) return list(problems, a.json, saved);
  const auto target = demand(target_of(a.device, a.threads, 0));
  LargeRun run(a, *target, saved);
  Progress progress;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    progress.show(fmt::format("{} of {}: {}", i + 1, problems.size(), text(problems[i])));
    run.measure(problems[i]);
    progress.clear();
  }
  return run.finish();
}

}  // namespace tconv::cli
