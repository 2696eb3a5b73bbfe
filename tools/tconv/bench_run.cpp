#include "bench_run.hpp"

#include <algorithm>
#include <memory>

#include "judge/case.hpp"
#include "plan/planner.hpp"

namespace tconv::cli {
namespace {

using core::Status;
using judge::Block;

constexpr double kCacheBytesPerThread = 2 << 20;
constexpr int kMostSets = 8;

int sets_for(const core::Problem& p, const judge::Target& target) {
  const double bytes = work_of(p).bytes;
  const core::DeviceInfo& device = target.info();
  const double cache = device.kind == core::DeviceKind::cuda
                           ? static_cast<double>(device.l2_bytes)
                           : kCacheBytesPerThread * std::max(1, target.options(0).threads);
  if (bytes < cache / 2) return 1;
  const double most = static_cast<double>(target.memory_limit()) / (2 * bytes);
  return static_cast<int>(std::clamp(std::min(4 * cache / bytes, most), 2.0, static_cast<double>(kMostSets)));
}

// One set of operands with its output.
struct Set {
  std::unique_ptr<judge::Case> operands;
  std::unique_ptr<Block> output;
};

class Bench {
 public:
  Bench(const core::Problem& problem, judge::Target& target, plan::Plan plan)
      : problem_(problem), target_(target), plan_(std::move(plan)) {}

  Status prepare() {
    const int sets = sets_for(problem_, target_);
    for (int i = 0; i < sets; ++i) {
      judge::Options options;
      options.seed = static_cast<uint64_t>(i) + 1;
      auto made = judge::Case::operands_only(problem_, judge::Fill::uniform, target_, options);
      if (!made.ok()) return made.status();
      Set set{std::move(made.value()), nullptr};
      Status status = allocate(set.output, output_bytes());
      if (!status.ok()) return status;
      sets_.push_back(std::move(set));
    }
    packed_bytes_ = plan_.kernel->packed_bytes();
    Status status = allocate(workspace_, plan_.workspace_bytes(false));
    if (status.ok()) status = allocate(packed_, packed_bytes_);
    if (!status.ok() || packed_bytes_ == 0) return status;
    status = pack(plan_, sets_[0].operands->device_operands().weight, packed_->device(), context());
    return status.ok() ? target_.finish() : status;
  }

  // Alternating samples until the time is spent on each kind; at least five of each after a warm-up.
  Status time(double seconds, std::vector<Timing>& timings) {
    const int kinds = packed_bytes_ > 0 ? 2 : 1;
    std::vector<double> taken[2];
    double spent = 0;
    int calls = 1;
    for (int64_t sample = 0;; ++sample) {
      const bool enough = spent > seconds * kinds && taken[0].size() >= 5;
      if (enough || taken[0].size() >= 20'000) break;
      for (int kind = 0; kind < kinds; ++kind) {
        auto one = timed_sample(sample, calls, kind == 1);
        if (!one.ok()) return one.status();
        if (sample < warm_up()) {
          calls = calls_for(one.value());
          continue;
        }
        taken[kind].push_back(one.value());
        spent += one.value() * calls;
      }
    }
    for (int kind = 0; kind < kinds; ++kind) timings.push_back(summary(kind, taken[kind]));
    return {};
  }

  int sets() const { return static_cast<int>(sets_.size()); }

 private:
  int64_t warm_up() const { return std::max<int64_t>(2, sets()); }
  std::size_t output_bytes() const {
    return static_cast<std::size_t>(problem_.output_elements()) * size_of(problem_.dtype);
  }
  Status allocate(std::unique_ptr<Block>& block, std::size_t bytes) {
    auto made = target_.allocate(std::max<std::size_t>(bytes, 1));
    if (!made.ok()) return made.status();
    block = std::move(made.value());
    return {};
  }
  plan::RunContext context() {
    plan::RunContext context = target_.context(0);
    context.workspace = workspace_->device();
    return context;
  }

  // A GPU's events count in half microseconds: short calls are timed several at once.
  int calls_for(double seconds) const {
    if (target_.info().kind == core::DeviceKind::cpu) return 1;
    return static_cast<int>(std::clamp(5e-4 / std::max(seconds, 1e-7), 1.0, 64.0));
  }

  core::Result<double> timed_sample(int64_t sample, int calls, bool packed) {
    return target_.timed(calls, [&](int call, plan::RunContext in) {
      const Set& set = sets_[static_cast<std::size_t>(sample * calls + call) % sets_.size()];
      plan::Operands operands = set.operands->device_operands();
      if (packed) operands.weight = packed_->device();
      operands.output = set.output->device();
      in.workspace = workspace_->device();
      return plan::run(plan_, operands, packed, in, plan_.workspace_bytes(false));
    });
  }

  static Timing summary(int kind, std::vector<double>& taken) {
    std::sort(taken.begin(), taken.end());
    auto at = [&](double part) {
      return taken[static_cast<std::size_t>(part * static_cast<double>(taken.size() - 1))];
    };
    return {kind == 0 ? "raw" : "packed", at(0.5), at(0.25), at(0.75), static_cast<int64_t>(taken.size())};
  }

  const core::Problem& problem_;
  judge::Target& target_;
  plan::Plan plan_;
  std::vector<Set> sets_;
  std::size_t packed_bytes_ = 0;
  std::unique_ptr<Block> workspace_, packed_;
};

}  // namespace

core::Result<Measured> measure(const core::Problem& problem, const std::string& kernel, judge::Target& target,
                               double seconds) {
  plan::PlanOptions options = target.options(0);
  options.force_kernel = kernel;
  auto plan = plan::make_plan(problem, target.info(), options);
  if (!plan.ok()) return plan.status();
  Measured measured;
  measured.kernel = plan.value().entry->name;
  const int threads = plan.value().options.threads;
  Bench bench(problem, target, std::move(plan.value()));
  Status status = bench.prepare();
  if (status.ok()) status = bench.time(seconds, measured.timings);
  if (!status.ok()) return status;
  const auto bytes = static_cast<std::size_t>(work_of(problem).bytes);
  if (target.info().kind == core::DeviceKind::cpu) {
    measured.rates = measure_cpu(problem.dtype, threads, bytes, bench.sets());
    return measured;
  }
  const auto attained = target.attained(problem.dtype);
  if (!attained.ok()) return attained.status();
  measured.rates = gpu_rates(target.info(), problem, attained.value());
  return measured;
}

}  // namespace tconv::cli
