// tconv bench --model: compares what the kernels' cost models predict with what is measured, and the
// planner's choice with every other kernel that takes the problem.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "bench.hpp"
#include "bench_run.hpp"
#include "command.hpp"
#include "devices.hpp"
#include "modes.hpp"
#include "problems.hpp"
#include "progress.hpp"

namespace tconv::cli {
namespace {

constexpr double kSeconds = 0.1;
constexpr double kNear = 1.1;  // of the best kernel's time
constexpr const char* kLayers = "tests/shapes/layers.tsv";

std::vector<NamedProblem> named_problems(const BenchArguments& a) {
  if (!a.problems.empty()) return read_problems_given(a.problems);
  if (!a.file.empty()) return read_problems(a.file);
  if (!std::ifstream(kLayers)) {
    throw UsageError(std::string(kLayers) +
                     ": cannot be read; run this in the sources' folder, or give problems");
  }
  return read_problems(kLayers);
}

// Problems as they are written, or each in the modes given. The table of layers of real models does not name
// tf32: its float32 layers run in tf32 if no mode is given.
std::vector<NamedProblem> problems_of(const BenchArguments& a) {
  const std::vector<NamedProblem> written = named_problems(a);
  const std::vector<Mode> modes = modes_of(a.modes);
  const bool layers = a.problems.empty() && a.file.empty();
  std::vector<NamedProblem> problems;
  for (const NamedProblem& one : written) {
    for (const Mode& mode : modes) problems.push_back({in_mode(one.problem, mode), one.name});
    if (!modes.empty()) continue;
    problems.push_back(one);
    core::Problem& p = problems.back().problem;
    if (layers && p.dtype == core::DType::f32) p.precision = core::Precision::tf32;
  }
  for (const NamedProblem& one : problems) {
    demand(validate(one.problem));
    if (one.problem.output_elements() == 0) {
      throw UsageError(text(one.problem) + ": has no output to compute");
    }
  }
  return problems;
}

Json json_of(const Contender& c) {
  Json json = Json::object();
  json.set("kernel", c.kernel).set("predicted_ms", c.predicted_ms > 0 ? Json(c.predicted_ms) : Json());
  if (!c.failed.empty()) return json.set("failed", c.failed);
  json.set("weights", c.timing.weights).set("seconds", c.timing.median).set("spread", c.timing.spread());
  return json.set("calls", c.timing.calls);
}

class ModelRun {
 public:
  ModelRun(const BenchArguments& a, judge::Target& target, const Saved& saved)
      : a_(a), target_(target), saved_(saved) {
    if (!a.json)
      line("predicted", "measured", "spread", "ratio", "best", "chosen/best", "kernel (best)", "problem");
  }

  void measure(const NamedProblem& named) {
    ++problems_;
    const auto contest = compete(named.problem, true, target_, a_.seconds > 0 ? a_.seconds : kSeconds);
    Json row = Json::object();
    row.set("problem", text(named.problem)).set("name", named.name);
    if (contest.ok()) return add(named, contest.value(), row);
    ++failed_;
    rows_.push(row.set("failed", contest.status().message()));
    if (!a_.json) fmt::print("failed: {}: {}\n", text(named.problem), contest.status().message());
  }

  int finish() {
    const double mean = geometric_mean(ratios_);
    const auto [least, most] = std::minmax_element(ratios_.begin(), ratios_.end());
    Json result = result_head("model", target_.info());
    result.set("problems", problems_).set("near_best", near_).set("failed", failed_);
    result.set("predicted", static_cast<int64_t>(ratios_.size()));
    result.set("geomean_measured_over_predicted", ratios_.empty() ? Json() : Json(mean));
    result.set("rows", rows_);
    if (a_.json) {
      fmt::print("{}\n", result.dump());
    } else {
      fmt::print(
          "milliseconds; ratio: measured / predicted; best: the fastest other kernel, where one is faster\n");
      fmt::print("the choice is within 10% of the best kernel on {} of {} problems; ", near_, problems_);
      if (ratios_.empty()) {
        fmt::print("no kernel among them has a cost model");
      } else {
        fmt::print("measured / predicted on {} of them: {:.2f} (geometric mean), {:.2f} to {:.2f}",
                   ratios_.size(), mean, *least, *most);
      }
      fmt::print("{}\n", failed_ > 0 ? fmt::format("; {} failed", failed_) : "");
    }
    saved_.save(result);
    return failed_ > 0 ? 1 : 0;
  }

 private:
  void add(const NamedProblem& named, const Contest& contest, Json& row) {
    const Contender& chosen = contest.contenders[0];
    const Contender* best = &chosen;
    Json contenders = Json::array();
    for (const Contender& c : contest.contenders) {
      contenders.push(json_of(c));
      if (c.failed.empty() && c.timing.median < best->timing.median) best = &c;
    }
    const double over_best = chosen.timing.median / best->timing.median;
    const double predicted = chosen.predicted_ms * 1e-3;
    const double ratio = predicted > 0 ? chosen.timing.median / predicted : 0;
    if (ratio > 0) ratios_.push_back(ratio);
    if (over_best <= kNear) ++near_;
    row.set("kernel", chosen.kernel).set("best", best->kernel).set("chosen_over_best", over_best);
    row.set("measured_over_predicted", ratio > 0 ? Json(ratio) : Json());
    rows_.push(row.set("kernels", contenders));
    if (a_.json) return;
    line(ratio > 0 ? milliseconds_text(predicted) : "-", milliseconds_text(chosen.timing.median),
         percent_text(chosen.timing.spread()), ratio > 0 ? fmt::format("{:.2f}", ratio) : "-",
         best == &chosen ? "-" : milliseconds_text(best->timing.median), fmt::format("{:.2f}", over_best),
         best == &chosen ? chosen.kernel : chosen.kernel + " (" + best->kernel + ")", text(named.problem));
  }

  static void line(const std::string& predicted, const std::string& measured, const std::string& spread,
                   const std::string& ratio, const std::string& best, const std::string& over_best,
                   const std::string& kernel, const std::string& problem) {
    fmt::print("{:>9}  {:>8}  {:>6}  {:>5}  {:>6}  {:>11}  {:<20}  {}\n", predicted, measured, spread, ratio,
               best, over_best, kernel, problem);
    flush_output();
  }

  const BenchArguments& a_;
  judge::Target& target_;
  const Saved& saved_;
  Json rows_ = Json::array();
  std::vector<double> ratios_;
  int64_t problems_ = 0, near_ = 0, failed_ = 0;
};

}  // namespace

int bench_model(const BenchArguments& a) {
  const std::vector<NamedProblem> problems = problems_of(a);
  const Saved saved(a);
  const auto target = demand(target_of(a.device, a.threads, 0));
  ModelRun run(a, *target, saved);
  Progress progress;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    progress.show(fmt::format("{} of {}: {}", i + 1, problems.size(), text(problems[i].problem)));
    run.measure(problems[i]);
    progress.clear();
  }
  return run.finish();
}

}  // namespace tconv::cli
