// tconv check: problems against the float64 reference.
#include <fmt/core.h>

#include <optional>

#include "command.hpp"
#include "devices.hpp"
#include "json.hpp"
#include "judge/draw.hpp"
#include "judge/judge.hpp"
#include "problems.hpp"
#include "progress.hpp"

namespace tconv::cli {
namespace {

struct CheckArguments {
  std::string problem, file, device = "cpu", kernel;
  int64_t random = 0, first = 0;
  uint64_t seed = 1;
  int threads = 0;
  int64_t memory_mib = 0;
  bool json = false;
};

// The problems in order, drawn or read.
class Source {
 public:
  explicit Source(const CheckArguments& a) : seed_(a.seed), first_(a.first) {
    const int given = (a.problem.empty() ? 0 : 1) + (a.file.empty() ? 0 : 1) + (a.random > 0 ? 1 : 0);
    if (given != 1) throw UsageError("check needs one of a problem, --file and --random");
    if (!a.problem.empty()) listed_ = {{read_problem(a.problem), ""}};
    if (!a.file.empty()) listed_ = read_problems(a.file);
    count_ = listed_.empty() ? a.random : static_cast<int64_t>(listed_.size());
  }
  int64_t count() const { return count_; }
  core::Problem at(int64_t i) const {
    if (!listed_.empty()) return listed_[static_cast<std::size_t>(i)].problem;
    judge::Rng rng(seed_, static_cast<uint64_t>(first_ + i));
    return judge::draw_valid(rng);
  }
  uint64_t seed_of(int64_t i) const { return judge::mix(seed_) + static_cast<uint64_t>(first_ + i); }

 private:
  uint64_t seed_;
  int64_t first_, count_;
  std::vector<NamedProblem> listed_;
};

int check(const CheckArguments& a) {
  const Source source(a);
  const auto target = demand(target_of(a.device, a.threads, static_cast<std::size_t>(a.memory_mib) << 20));
  Progress progress;
  Json failures = Json::array();
  int64_t wrong = 0, verdicts = 0, sampled = 0;
  for (int64_t i = 0; i < source.count(); ++i) {
    progress.show(fmt::format("{} of {} problems, {} wrong", i, source.count(), wrong));
    const core::Problem problem = source.at(i);
    judge::Options options;
    options.seed = source.seed_of(i);
    bool right = true, in_full = true;
    for (const judge::Verdict& v : judge::judge(problem, a.kernel, *target, options)) {
      ++verdicts;
      in_full = in_full && !v.sampled;
      if (v.right) continue;
      right = false;
      const std::string kernel = v.kernel.empty() ? "no kernel" : v.kernel;
      progress.clear();
      if (!a.json) fmt::print("{}: {}: {}\n", text(problem), kernel, v.failure);
      failures.push(
          Json::object().set("problem", text(problem)).set("kernel", kernel).set("failure", v.failure));
    }
    if (!right) ++wrong;
    if (!in_full) ++sampled;
  }
  progress.clear();
  if (a.json) {
    Json result = Json::object();
    result.set("problems", source.count()).set("wrong", wrong).set("verdicts", verdicts);
    fmt::print("{}\n", result.set("sampled", sampled).set("failures", failures).dump());
  } else {
    fmt::print("{} problems, {} wrong\n", source.count(), wrong);
  }
  return wrong > 0 ? 1 : 0;
}

}  // namespace

Command check_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("check", "Hold kernels against the float64 reference");
  auto a = std::make_shared<CheckArguments>();
  sub->add_option("problem", a->problem, "One problem, e.g. \"n1 ci8 co8 l100 k4 s2 p1 f32\"");
  sub->add_option("--file", a->file, "Problem lines, or a table of layers");
  sub->add_option("--random", a->random, "So many random problems of every feature")
      ->check(CLI::PositiveNumber);
  sub->add_option("--seed", a->seed, "Of the random problems and of all data")->capture_default_str();
  sub->add_option("--first", a->first, "Begin at this random problem of the seed")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--device", a->device, "cpu or cuda")->capture_default_str();
  sub->add_option("--kernel", a->kernel, "A kernel's name, or all that support the problem");
  sub->add_option("--threads", a->threads, "CPU threads; 0: one a core")->check(CLI::Range(0, 4096));
  sub->add_option("--memory", a->memory_mib, "MiB that one problem may take; 0: half of what is free")
      ->check(CLI::NonNegativeNumber);
  sub->add_flag("--json", a->json, "Print JSON");
  return {sub, [a] { return check(*a); }};
}

}  // namespace tconv::cli
