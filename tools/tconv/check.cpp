// tconv check: problems against the float64 reference.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "command.hpp"
#include "devices.hpp"
#include "files.hpp"
#include "json.hpp"
#include "judge/draw.hpp"
#include "judge/judge.hpp"
#include "options.hpp"
#include "plan/planner.hpp"
#include "plan/registry.hpp"
#include "problems.hpp"
#include "progress.hpp"

namespace tconv::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  tconv check \"n1 ci8 co8 l100 k4 s2 p1 f32\" --kernel reference --threads 2\n"
    "  tconv check --file tests/shapes/smoke.txt --kernel cpu.dense,cpu.short --where-supported\n"
    "  tconv check --random 1000 --seed 7 --first 5000 --data special,integers --kernel all --stop\n"
    "  tconv check --random 20000 --op weight --kernel all\n"
    "  tconv bench --random-large 20 --list | tconv check --file - --device cuda --memory 4096\n"
    "  tconv check \"n1 ci64 co64 l100 k4 s2 p1 f16\" --device cuda --kernel cuda.sm80.dense --where\n"
    "  tconv check --random 50 --simd SSE4 --json";

struct CheckArguments {
  std::string problem, file, op, device = "cpu", kernel, simd;
  std::vector<std::string> data;
  int64_t random = 0, first = 0;
  uint64_t seed = 1;
  int threads = 0;
  int64_t memory_mib = 0;
  bool json = false, where_supported = false, where = false, stop = false;
};

using judge::Fill;

// The words of --data.
constexpr std::pair<const char*, Fill> kData[] = {{"integers", Fill::integers},
                                                  {"uniform", Fill::uniform},
                                                  {"positive", Fill::positive},
                                                  {"spread", Fill::spread},
                                                  {"special", Fill::special}};

// The words of such a table.
template <class Meaning, std::size_t Count>
std::vector<std::string> words_of(const std::pair<const char*, Meaning> (&table)[Count]) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : table) words.push_back(word);
  return words;
}

std::string word_of(Fill wanted) {
  for (const auto& [word, fill] : kData) {
    if (fill == wanted) return word;
  }
  return "";
}

std::vector<Fill> fills_of(const std::vector<std::string>& words) {
  std::vector<Fill> fills;
  for (const std::string& wanted : words) {
    for (const auto& [word, fill] : kData) {
      if (word == wanted) fills.push_back(fill);
    }
  }
  return fills;
}

// The words of --op.
constexpr std::pair<const char*, core::Operation> kOperations[] = {
    {"transposed", core::Operation::transposed},
    {"strided", core::Operation::strided},
    {"weight", core::Operation::weight},
    {"bias", core::Operation::bias}};

std::optional<core::Operation> operation_of(const std::string& wanted) {
  for (const auto& [word, operation] : kOperations) {
    if (word == wanted) return operation;
  }
  return {};
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The names of --kernel: one or "all", with --where-supported a list with commas. Refused if no problem could
// be right with them.
std::vector<std::string> names_of(const CheckArguments& a) {
  const std::string forced = environment("TCONV_FORCE_KERNEL");
  if (!forced.empty()) demand_kernel("TCONV_FORCE_KERNEL", forced);
  if (a.where_supported && a.kernel.empty()) throw UsageError("--where-supported needs --kernel");
  if (a.kernel.empty() || (a.kernel == "all" && !a.where_supported)) return {a.kernel};
  const std::vector<std::string> names = split_at_commas(a.kernel);
  if (names.size() > 1 && !a.where_supported) throw UsageError("--kernel: a list needs --where-supported");
  for (const std::string& name : names) demand_kernel("--kernel", name);
  for (const plan::KernelEntry* entry : plan::registry()) {
    const std::string device = entry->device == core::DeviceKind::cuda ? "cuda" : "cpu";
    const bool named = std::find(names.begin(), names.end(), entry->name) != names.end();
    if (named && device != a.device) {
      throw UsageError(
          fmt::format("--kernel: {} runs on {}, and --device is {}", entry->name, device, a.device));
    }
  }
  return names;
}

// What to judge a problem on: the planner's choice (""), one kernel, all, or those of a list that take it.
std::vector<std::string> kernels_for(const core::Problem& problem, const CheckArguments& a,
                                     const std::vector<std::string>& names, judge::Target& target) {
  if (!a.where_supported) return names;
  std::vector<std::string> kernels;
  for (const plan::KernelEntry* entry : supporting(problem, target.info(), target.options(0))) {
    if (std::find(names.begin(), names.end(), entry->name) != names.end()) kernels.push_back(entry->name);
  }
  return kernels;
}

// The problems, drawn or read, in order.
class Source {
 public:
  explicit Source(const CheckArguments& a)
      : seed_(a.seed), first_(a.first), drawn_{.operation = operation_of(a.op), .far = true} {
    if (!a.op.empty() && a.random == 0) throw UsageError("--op is the operation of --random's problems");
    const int given = (a.problem.empty() ? 0 : 1) + (a.file.empty() ? 0 : 1) + (a.random > 0 ? 1 : 0);
    if (given != 1) throw UsageError("check takes one of these: a problem, --file or --random");
    if (!a.problem.empty()) listed_ = {{read_problem(a.problem), ""}};
    if (!a.file.empty()) listed_ = read_problems(a.file);
    count_ = listed_.empty() ? a.random : static_cast<int64_t>(listed_.size());
  }
  int64_t count() const { return count_; }
  core::Problem at(int64_t i) const {
    if (!listed_.empty()) return listed_[static_cast<std::size_t>(i)].problem;
    judge::Rng rng(seed_, static_cast<uint64_t>(first_ + i));
    return judge::draw_valid(rng, drawn_);
  }
  // The data depend on the seed and the problem's number alone.
  uint64_t seed_of(int64_t i) const { return judge::mix(seed_) + static_cast<uint64_t>(first_ + i); }

 private:
  uint64_t seed_;
  int64_t first_, count_;
  judge::DrawOptions drawn_;
  std::vector<NamedProblem> listed_;
};

// The command that judges this problem alone on the same data again; its options include what the environment
// forces.
std::string again(const CheckArguments& a, const core::Problem& problem, int64_t number, std::string kernel,
                  const std::optional<Fill>& fill) {
  std::string command = fmt::format("tconv check \"{}\" --seed {} --first {}", text(problem), a.seed, number);
  if (fill) command += " --data " + word_of(*fill);
  if (!fill && !a.data.empty()) command += fmt::format(" --data {}", fmt::join(a.data, ","));
  if (kernel.empty()) kernel = environment("TCONV_FORCE_KERNEL");
  if (!kernel.empty()) command += " --kernel " + kernel;
  if (a.device != "cpu") command += " --device " + a.device;
  if (a.threads > 0) command += fmt::format(" --threads {}", a.threads);
  if (a.memory_mib > 0) command += fmt::format(" --memory {}", a.memory_mib);
  const std::string simd = environment("TCONV_SIMD");  // --simd sets it
  if (a.device == "cpu" && !simd.empty()) command += " --simd " + simd;
  return command;
}

class Check {
 public:
  explicit Check(const CheckArguments& a)
      : a_(a),
        names_(names_of(a)),
        source_(a),
        target_(demand(target_of(a.device, a.threads, static_cast<std::size_t>(a.memory_mib) << 20))) {}

  int run() {
    for (int64_t i = 0; i < source_.count() && !(a_.stop && wrong_ > 0); ++i) {
      progress_.show(fmt::format("{} of {} problems, {} wrong", i, source_.count(), wrong_));
      judge_one(i);
      ++problems_;
    }
    progress_.clear();
    a_.json ? print_json() : print_text();
    return wrong_ > 0 || verdicts_ == 0 ? 1 : 0;
  }

 private:
  void judge_one(int64_t i) {
    const core::Problem problem = source_.at(i);
    judge::JudgeOptions options;
    options.seed = source_.seed_of(i);
    options.fills = fills_of(a_.data);
    const std::vector<std::string> kernels = kernels_for(problem, a_, names_, *target_);
    bool right = true, in_full = true;
    for (const std::string& name : kernels) {
      for (const judge::Verdict& v : judge::judge(problem, name, *target_, options)) {
        ++verdicts_;
        if (!v.kernel.empty()) ++kernels_[v.kernel];
        in_full = in_full && !v.sampled;
        if (v.right) continue;
        right = false;
        add_failure(problem, a_.first + i, name == "all" ? v.kernel : name, v);
      }
    }
    if (kernels.empty()) ++left_out_;
    if (!right) ++wrong_;
    if (!in_full) ++sampled_;
  }

  void add_failure(const core::Problem& problem, int64_t number, const std::string& forced,
                   const judge::Verdict& v) {
    const std::string kernel = v.kernel.empty() ? "no kernel" : v.kernel;
    const std::string command = again(a_, problem, number, forced, v.fill);
    Json failure = Json::object();
    failure.set("problem", text(problem)).set("kernel", kernel).set("failure", v.failure);
    failure.set("seed", a_.seed).set("number", number).set("data", v.fill ? Json(word_of(*v.fill)) : Json());
    if (a_.where) {
      Json where = Json::array();
      for (const std::string& line : v.where) where.push(line);
      failure.set("where", where);
    }
    failures_.push(failure.set("command", command));
    if (a_.json) return;
    progress_.clear();
    fmt::print("{}: {}: {}; again: {}\n", text(problem), kernel, v.failure, command);
    if (a_.where) print_where(v);
    flush_output();
  }

  static void print_where(const judge::Verdict& v) {
    for (const std::string& line : v.where) fmt::print("  {}\n", line);
    if (v.where.empty()) fmt::print("  where: {} does not say\n", v.kernel.empty() ? "no kernel" : v.kernel);
  }

  void print_text() const {
    const std::string left =
        a_.where_supported ? fmt::format(", {} not supported by these kernels", left_out_) : "";
    const std::string stopped = problems_ < source_.count()
                                    ? fmt::format(", stopped before {} more", source_.count() - problems_)
                                    : "";
    fmt::print("{} {}, {} wrong{}{}\n", problems_, problems_ == 1 ? "problem" : "problems", wrong_, left,
               stopped);
  }

  void print_json() const {
    Json kernels = Json::object();
    for (const auto& [name, count] : kernels_) kernels.set(name, count);
    Json result = Json::object();
    result.set("problems", problems_).set("wrong", wrong_).set("verdicts", verdicts_);
    result.set("left_out", left_out_).set("sampled", sampled_).set("kernels", kernels);
    fmt::print("{}\n", result.set("failures", failures_).dump());
  }

  const CheckArguments& a_;
  std::vector<std::string> names_;
  Source source_;
  std::unique_ptr<judge::Target> target_;
  Progress progress_;
  int64_t problems_ = 0, wrong_ = 0, verdicts_ = 0, sampled_ = 0, left_out_ = 0;
  std::map<std::string, int64_t> kernels_;  // how many verdicts each has
  Json failures_ = Json::array();
};

}  // namespace

Command check_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("check", "Compare kernels with the float64 reference");
  auto a = std::make_shared<CheckArguments>();
  sub->add_option("problem", a->problem, "One problem, in quotes, e.g. \"n1 ci8 co8 l100 k4 s2 p1 f32\"");
  add_file(*sub, "--file", a->file, "Problem lines, or a table of layers; - for standard input");
  add_whole(*sub, "--random", a->random, 1, kMostProblems, "This many random problems with all features");
  sub->add_option(
         "--op", a->op,
         "All random problems are of this operation: transposed, strided, weight or bias. The default is "
         "a mixture, most of it transposed")
      ->type_name("NAME")
      ->check(one_of(words_of(kOperations)));
  add_whole(*sub, "--seed", a->seed, 0, UINT64_MAX, "Seed of the random problems and of all data")
      ->capture_default_str();
  add_whole(*sub, "--first", a->first, 0, kMostProblems,
            "Start with this random problem of the seed; a problem on the command line gets the data of this "
            "number")
      ->capture_default_str();
  sub->add_option(
         "--data", a->data,
         "Kinds of data, separated by commas: integers,uniform,positive,spread,special (NaN and infinities)")
      ->type_name("KINDS")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(words_of(kData)));
  add_device(*sub, a->device);
  sub->add_option("--kernel", a->kernel, "A kernel's name, or all: every one that supports the problem")
      ->type_name("NAME")
      ->check(not_empty());
  sub->add_flag(
      "--where-supported", a->where_supported,
      "--kernel is a list, separated by commas; problems that none of them supports are skipped, not wrong");
  add_threads(*sub, a->threads);
  add_simd(*sub, a->simd);
  constexpr uint64_t kMostMib = (uint64_t{1} << 43) - 1;
  add_whole(*sub, "--memory", a->memory_mib, 0, kMostMib,
            "MiB that one problem may take; 0, the default: half of what is free");
  sub->add_flag("--where", a->where,
                "For the first wrong elements, the block, tile, warp, lane and register that computed them");
  sub->add_flag("--stop", a->stop, "Stop at the first wrong problem");
  add_json(*sub, a->json);
  sub->footer(kExamples);
  return {sub, [a] { return Check(*a).run(); }};
}

}  // namespace tconv::cli
