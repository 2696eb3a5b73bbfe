#include "bench_run.hpp"

#include <algorithm>
#include <memory>

#include "judge/case.hpp"
#include "plan/planner.hpp"

namespace tconv::cli {
namespace {

using core::Status;
using judge::Block;
using judge::Target;

constexpr double kCacheBytesPerThread = 2 << 20;
constexpr int kMostSets = 8;
constexpr std::size_t kLeastSamples = 5, kMostSamples = 20'000;
constexpr double kHopeless = 4;  // times the fastest

int sets_for(const core::Problem& p, const Target& target) {
  const double bytes = work_of(p).bytes;
  const core::DeviceInfo& device = target.info();
  const double cache = device.kind == core::DeviceKind::cuda
                           ? static_cast<double>(device.l2_bytes)
                           : kCacheBytesPerThread * std::max(1, target.options(0).threads);
  if (bytes < cache / 2) return 1;
  const double most = static_cast<double>(target.memory_limit()) / (2 * bytes);
  return static_cast<int>(std::clamp(std::min(4 * cache / bytes, most), 2.0, static_cast<double>(kMostSets)));
}

Status allocate(Target& target, std::unique_ptr<Block>& block, std::size_t bytes) {
  auto made = target.allocate(std::max<std::size_t>(bytes, 1));
  if (!made.ok()) return made.status();
  block = std::move(made.value());
  return {};
}

// Operands with their output: calls take turns with several of these.
struct Set {
  std::unique_ptr<judge::Case> operands;
  std::unique_ptr<Block> output, grad_bias;
};

core::Result<std::vector<Set>> make_sets(const core::Problem& problem, Target& target) {
  std::vector<Set> sets;
  const auto bytes = static_cast<std::size_t>(problem.output_elements()) * size_of(problem.dtype);
  const auto bias_bytes = static_cast<std::size_t>(problem.grad_bias_elements()) * size_of(problem.dtype);
  for (int i = 0; i < sets_for(problem, target); ++i) {
    judge::JudgeOptions options;
    options.seed = static_cast<uint64_t>(i) + 1;
    options.aligned = true;
    auto made = judge::Case::operands_only(problem, judge::Fill::uniform, target, options);
    if (!made.ok()) return made.status();
    Set set{std::move(made.value()), nullptr, nullptr};
    Status status = allocate(target, set.output, bytes);
    if (status.ok()) status = allocate(target, set.grad_bias, bias_bytes);
    if (!status.ok()) return status;
    sets.push_back(std::move(set));
  }
  return sets;
}

// A plan with its buffers and packed weights.
class Runner {
 public:
  Runner(plan::Plan plan, Target& target, const std::vector<Set>& sets)
      : plan_(std::move(plan)), target_(target), sets_(sets) {}

  const plan::Plan& plan() const { return plan_; }

  Status prepare() {
    Status status = allocate(target_, workspace_, plan_.workspace_bytes(false));
    if (status.ok()) status = allocate(target_, packed_, plan_.packed_bytes());
    if (!status.ok()) return status;
    plan::RunContext context = target_.context(0);
    context.workspace = workspace_->device();
    status = pack(plan_, sets_[0].operands->device_operands().weight, packed_->device(), context);
    return status.ok() ? target_.finish() : status;
  }

  core::Result<double> timed_sample(std::size_t sample, int calls, bool packed) {
    return target_.timed(calls, [&](int call, plan::RunContext in) {
      const std::size_t turn = sample * static_cast<std::size_t>(calls) + static_cast<std::size_t>(call);
      const Set& set = sets_[turn % sets_.size()];
      plan::Operands operands = set.operands->device_operands();
      if (packed) operands.weight = packed_->device();
      operands.output = set.output->device();
      operands.grad_bias = set.grad_bias->device();
      in.workspace = workspace_->device();
      return plan::run(plan_, operands, packed, in, plan_.workspace_bytes(false));
    });
  }

 private:
  plan::Plan plan_;
  Target& target_;
  const std::vector<Set>& sets_;
  std::unique_ptr<Block> workspace_, packed_;
};

// A runner with one kind of weights, and the seconds that its calls took.
struct Way {
  Runner* runner;
  bool packed;
  int calls = 1;
  bool hopeless = false;
  double first = 0;  // of the last sample before timing
  std::vector<double> taken = {};
  std::string failed = {};

  Timing summary() {
    if (taken.empty()) return {packed ? "packed" : "raw", first, first, first, 1};
    std::sort(taken.begin(), taken.end());
    auto at = [&](double part) {
      return taken[static_cast<std::size_t>(part * static_cast<double>(taken.size() - 1))];
    };
    return {packed ? "packed" : "raw", at(0.5), at(0.25), at(0.75), static_cast<int64_t>(taken.size())};
  }
};

// A GPU's events count in half microseconds: short calls are timed several at once.
int calls_for(double seconds, const Target& target) {
  if (target.info().kind == core::DeviceKind::cpu) return 1;
  return static_cast<int>(std::clamp(5e-4 / std::max(seconds, 1e-7), 1.0, 64.0));
}

// Not the first, the planner's choice: one interruption would leave it with a single call.
void give_up_the_hopeless(std::vector<Way>& ways) {
  double fastest = ways[0].first;
  for (const Way& way : ways) {
    if (!way.hopeless) fastest = std::min(fastest, way.first);
  }
  for (std::size_t i = 1; i < ways.size(); ++i) {
    ways[i].hopeless = ways[i].hopeless || ways[i].first > kHopeless * fastest;
  }
}

// Samples of all ways in turns, until each has had its time; at least five of each after a warm-up.
Status time_in_turns(std::vector<Way>& ways, Target& target, std::size_t sets, double seconds,
                     bool may_give_up) {
  const std::size_t warm_up = std::max<std::size_t>(2, sets);
  double spent = 0;
  for (std::size_t sample = 0;; ++sample) {
    const std::size_t taken = sample < warm_up ? 0 : sample - warm_up;
    const auto timed = std::count_if(ways.begin(), ways.end(), [](const Way& w) { return !w.hopeless; });
    const bool enough = spent > seconds * static_cast<double>(timed) && taken >= kLeastSamples;
    if (enough || taken >= kMostSamples) return {};
    for (Way& way : ways) {
      if (way.hopeless) continue;
      auto one = way.runner->timed_sample(sample, way.calls, way.packed);
      if (!one.ok() && !(may_give_up && &way != &ways[0])) return one.status();
      if (!one.ok()) {
        way.hopeless = true;
        way.failed = one.status().message();
      } else if (sample < warm_up) {
        way.first = one.value();
        way.calls = calls_for(one.value(), target);
      } else {
        way.taken.push_back(one.value());
        spent += one.value() * way.calls;
      }
    }
    if (may_give_up && sample == 1) give_up_the_hopeless(ways);
  }
}

core::Result<plan::Plan> plan_for(const core::Problem& problem, const std::string& kernel, Target& target) {
  plan::PlanOptions options = target.options(0);
  options.force_kernel = kernel;
  return plan::make_plan(problem, target.info(), options);
}

core::Result<Rates> rates_for(const core::Problem& problem, Target& target, int threads, std::size_t sets) {
  if (target.info().kind == core::DeviceKind::cpu) {
    const auto bytes = static_cast<std::size_t>(work_of(problem).bytes);
    return measure_cpu(problem.dtype, threads, bytes, static_cast<int>(sets));
  }
  const auto attained = target.attained(problem.dtype);
  if (!attained.ok()) return attained.status();
  return gpu_rates(target.info(), problem, attained.value());
}

// The names of the kernels to compete, the planner's choice first.
std::vector<std::string> names_of(const core::Problem& problem, const plan::Plan& chosen, bool rivals,
                                  const Target& target) {
  std::vector<std::string> names = {chosen.entry->name};
  if (!rivals) return names;
  for (const plan::KernelEntry* entry : supporting(problem, target.info(), target.options(0))) {
    if (entry != chosen.entry) names.push_back(entry->name);
  }
  return names;
}

}  // namespace

core::Result<Measured> measure(const core::Problem& problem, const std::string& kernel, Target& target,
                               double seconds) {
  auto plan = plan_for(problem, kernel, target);
  if (!plan.ok()) return plan.status();
  Measured measured;
  measured.kernel = plan.value().name();
  const int threads = plan.value().options.threads;
  auto sets = make_sets(problem, target);
  if (!sets.ok()) return sets.status();
  Runner runner(std::move(plan.value()), target, sets.value());
  Status status = runner.prepare();
  if (!status.ok()) return status;
  std::vector<Way> ways = {{&runner, false}};
  if (runner.plan().packs()) ways.push_back({&runner, true});
  status = time_in_turns(ways, target, sets.value().size(), seconds, false);
  if (!status.ok()) return status;
  for (Way& way : ways) measured.timings.push_back(way.summary());
  auto rates = rates_for(problem, target, threads, sets.value().size());
  if (!rates.ok()) return rates.status();
  measured.rates = rates.value();
  return measured;
}

core::Result<Contest> compete(const core::Problem& problem, bool rivals, Target& target, double seconds) {
  auto chosen = plan_for(problem, "", target);
  if (!chosen.ok()) return chosen.status();
  const int threads = chosen.value().options.threads;
  auto sets = make_sets(problem, target);
  if (!sets.ok()) return sets.status();
  Contest contest;
  std::vector<std::unique_ptr<Runner>> runners;
  std::vector<Way> ways;
  std::vector<std::size_t> places;  // of the ways among the contenders
  for (const std::string& name : names_of(problem, chosen.value(), rivals, target)) {
    // The choice is not forced: it may copy operands first, which a forced kernel does not.
    auto plan = plan_for(problem, contest.contenders.empty() ? "" : name, target);
    Status status = plan.status();
    contest.contenders.push_back({name, 0, {}, ""});
    if (status.ok()) {
      contest.contenders.back().kernel = plan.value().name();
      contest.contenders.back().predicted_ms = plan.value().kernel->predicted_ms();
      runners.push_back(std::make_unique<Runner>(std::move(plan.value()), target, sets.value()));
      status = runners.back()->prepare();
    }
    if (!status.ok()) {
      if (contest.contenders.size() == 1) return status;
      contest.contenders.back().failed = status.message();
      continue;
    }
    ways.push_back({runners.back().get(), runners.back()->plan().packs()});
    places.push_back(contest.contenders.size() - 1);
  }
  Status status = time_in_turns(ways, target, sets.value().size(), seconds, rivals);
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    Contender& contender = contest.contenders[places[i]];
    contender.failed = ways[i].failed;
    if (contender.failed.empty()) contender.timing = ways[i].summary();
  }
  auto rates = rates_for(problem, target, threads, sets.value().size());
  if (!rates.ok()) return rates.status();
  contest.rates = rates.value();
  return contest;
}

}  // namespace tconv::cli
