// tconv check: problems against the float64 reference.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "command.hpp"
#include "devices.hpp"
#include "json.hpp"
#include "judge/draw.hpp"
#include "judge/judge.hpp"
#include "plan/planner.hpp"
#include "plan/registry.hpp"
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
  bool json = false, where_supported = false;
};

// The names of --kernel, with commas between them.
std::vector<std::string> names_of(const std::string& kernels) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= kernels.size();) {
    const std::size_t end = std::min(kernels.find(',', begin), kernels.size());
    names.push_back(kernels.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& name : names) {
    const auto& all = plan::registry();
    const bool known = std::any_of(all.begin(), all.end(), [&](const auto* e) { return name == e->name; });
    if (!known) throw UsageError("kernel '" + name + "' is not known");
  }
  return names;
}

// What to judge a problem on: the planner's choice (""), one kernel, all, or those of a list that take it.
std::vector<std::string> kernels_for(const core::Problem& problem, const CheckArguments& a,
                                     const std::vector<std::string>& names, judge::Target& target) {
  if (!a.where_supported) return {a.kernel};
  std::vector<std::string> kernels;
  for (const plan::KernelEntry* entry : supporting(problem, target.info(), target.options(0))) {
    if (std::find(names.begin(), names.end(), entry->name) != names.end()) kernels.push_back(entry->name);
  }
  return kernels;
}

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

// What a run has found.
struct Tally {
  int64_t wrong = 0, verdicts = 0, sampled = 0, left_out = 0;
  std::map<std::string, int64_t> kernels;  // verdicts of each
  Json failures = Json::array();
};

void judge_one(const core::Problem& problem, const std::vector<std::string>& kernels, judge::Target& target,
               const judge::Options& options, bool print, Progress& progress, Tally& tally) {
  bool right = true, in_full = true;
  for (const std::string& name : kernels) {
    for (const judge::Verdict& v : judge::judge(problem, name, target, options)) {
      ++tally.verdicts;
      if (!v.kernel.empty()) ++tally.kernels[v.kernel];
      in_full = in_full && !v.sampled;
      if (v.right) continue;
      right = false;
      const std::string kernel = v.kernel.empty() ? "no kernel" : v.kernel;
      progress.clear();
      if (print) fmt::print("{}: {}: {}\n", text(problem), kernel, v.failure);
      Json failure = Json::object();
      failure.set("problem", text(problem)).set("kernel", kernel).set("failure", v.failure);
      tally.failures.push(failure);
    }
  }
  if (kernels.empty()) ++tally.left_out;
  if (!right) ++tally.wrong;
  if (!in_full) ++tally.sampled;
}

void print_json(const Tally& tally, int64_t problems) {
  Json kernels = Json::object();
  for (const auto& [name, count] : tally.kernels) kernels.set(name, count);
  Json result = Json::object();
  result.set("problems", problems).set("wrong", tally.wrong).set("verdicts", tally.verdicts);
  result.set("left_out", tally.left_out).set("sampled", tally.sampled).set("kernels", kernels);
  fmt::print("{}\n", result.set("failures", tally.failures).dump());
}

int check(const CheckArguments& a) {
  const Source source(a);
  if (a.where_supported && a.kernel.empty()) throw UsageError("--where-supported needs --kernel");
  const auto names = a.where_supported ? names_of(a.kernel) : std::vector<std::string>();
  const auto target = demand(target_of(a.device, a.threads, static_cast<std::size_t>(a.memory_mib) << 20));
  Progress progress;
  Tally tally;
  for (int64_t i = 0; i < source.count(); ++i) {
    progress.show(fmt::format("{} of {} problems, {} wrong", i, source.count(), tally.wrong));
    const core::Problem problem = source.at(i);
    judge::Options options;
    options.seed = source.seed_of(i);
    judge_one(problem, kernels_for(problem, a, names, *target), *target, options, !a.json, progress, tally);
  }
  progress.clear();
  if (a.json) {
    print_json(tally, source.count());
  } else {
    const std::string left =
        a.where_supported ? fmt::format(", {} taken by none of these kernels", tally.left_out) : "";
    fmt::print("{} problems, {} wrong{}\n", source.count(), tally.wrong, left);
  }
  return tally.wrong > 0 || tally.verdicts == 0 ? 1 : 0;
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
  sub->add_flag("--where-supported", a->where_supported,
                "--kernel is a list with commas; problems that none of it takes are left out, not wrong");
  sub->add_option("--threads", a->threads, "CPU threads; 0: one a core")->check(CLI::Range(0, 4096));
  sub->add_option("--memory", a->memory_mib, "MiB that one problem may take; 0: half of what is free")
      ->check(CLI::NonNegativeNumber);
  sub->add_flag("--json", a->json, "Print JSON");
  return {sub, [a] { return check(*a); }};
}

}  // namespace tconv::cli
