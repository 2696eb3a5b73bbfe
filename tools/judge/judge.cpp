#include "judge/judge.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "judge/bound.hpp"
#include "judge/guarded.hpp"
#include "reference/reference.hpp"

namespace tconv::judge {

using core::Problem;
using core::Status;

namespace {

const char* const kOperandNames[] = {"x", "weight", "bias", "grad_output"};

bool reads(const Problem& p, int role) {
  const bool forward = p.operation == core::Operation::forward;
  const bool grad_weight = p.operation == core::Operation::grad_weight;
  const bool grad_input = p.operation == core::Operation::grad_input;
  const bool roles[] = {forward || grad_weight, forward || grad_input, forward && p.has_bias, !forward};
  return roles[role];
}

int64_t elements(const Problem& p, int role) {
  const int64_t counts[] = {p.x_span(), p.weight_elements(), p.cout, p.y_elements()};
  return reads(p, role) ? counts[role] : 0;
}

bool samples(const Problem& p, const Options& options) {
  const int64_t most = std::max({p.output_elements(), elements(p, 0), elements(p, 3), p.x_elements()});
  return work_of(p).flops / 2 > options.all_products || most > options.all_elements;
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", v);
  return text;
}

}  // namespace

struct Case::State {
  Problem problem;
  Fill fill;
  Target& target;
  Options options;
  std::optional<Guarded> operands[4];
  uint64_t checksums[4] = {};
  Truth truth;
  bool sampled = false;

  Status fill_operands();
  void find_truth();
  plan::Operands host_operands() {
    auto at = [&](int role) -> void* { return operands[role] ? operands[role]->host() : nullptr; };
    return {at(0), at(1), at(2), at(3), nullptr};
  }
  plan::Operands device_operands() {
    auto at = [&](int role) -> void* { return operands[role] ? operands[role]->device() : nullptr; };
    return {at(0), at(1), at(2), at(3), nullptr};
  }
};

Status Case::State::fill_operands() {
  Rng rng(options.seed, 77);
  const std::size_t element = size_of(problem.dtype);
  for (int role = 0; role < 4; ++role) {
    if (!reads(problem, role)) continue;
    // Tensors need their element's alignment alone.
    const std::size_t shift = rng.chance(50) ? 0 : static_cast<std::size_t>(rng.between(1, 31)) * element;
    const auto bytes = static_cast<std::size_t>(elements(problem, role)) * element;
    auto made = Guarded::make(target, Guarded::Kind::read, bytes, shift);
    if (!made.ok()) return made.status();
    operands[role].emplace(std::move(made.value()));
    fill_operand(problem, fill, options.seed, role, operands[role]->host());
    checksums[role] = checksum(operands[role]->host(), bytes);
    Status status = operands[role]->push();
    if (!status.ok()) return status;
  }
  return {};
}

void Case::State::find_truth() {
  const bool tf32 = target.arithmetic(problem).tf32;
  sampled = samples(problem, options);
  Rng rng(options.seed, 78);
  truth = sampled ? Truth::sampled(problem, host_operands(), tf32, rng)
                  : Truth::all(problem, host_operands(), tf32);
}

namespace {

// One kernel on one case; fails with a line at the first thing that is wrong.
class Trial {
 public:
  Trial(const Problem& problem, Fill fill, Target& target, std::span<std::optional<Guarded>> operands,
        const uint64_t* checksums, const Truth& truth)
      : problem_(problem),
        fill_(fill),
        target_(target),
        operands_(operands),
        checksums_(checksums),
        truth_(truth) {}

  // Empty where everything is right.
  std::string run(const std::string& kernel, plan::Operands raw) {
    for (int run = 0; run < 2; ++run) {
      std::string failure = make_plan(run, kernel);
      if (failure.empty()) failure = run_once(run, raw);
      if (!failure.empty()) return failure;
    }
    return {};
  }
  const std::string& kernel() const { return kernel_; }

 private:
  std::string make_plan(int run, const std::string& kernel) {
    plan::PlanOptions options = target_.options(run);
    options.force_kernel = kernel;
    auto made = plan::make_plan(problem_, target_.info(), options);
    if (!made.ok()) return "no plan: " + made.status().message();
    plan_.emplace(std::move(made.value()));
    kernel_ = plan_->entry->name;
    return {};
  }

  static std::string said(const char* what, const Status& status) {
    return status.ok() ? "" : std::string(what) + " refused: " + status.message();
  }

  std::string run_once(int run, plan::Operands operands) {
    const std::size_t packed_bytes = plan_->kernel->packed_bytes();
    const bool packed = run == 1 && packed_bytes > 0;
    const std::size_t workspace_bytes = plan_->workspace_bytes(packed);
    const auto output_bytes = static_cast<std::size_t>(problem_.output_elements()) * size_of(problem_.dtype);
    std::string failure =
        allocate(output_, output_bytes, output_bytes % 3 == 0 ? 0 : size_of(problem_.dtype));
    if (failure.empty()) failure = allocate(workspace_, workspace_bytes, 0);
    if (failure.empty()) failure = allocate(packed_, packed ? packed_bytes : 0, 0);
    if (!failure.empty()) return failure;

    plan::RunContext context = target_.context(run);
    context.workspace = workspace_->device();
    operands.output = output_->device();
    margins(true);
    Status status;
    if (packed) {
      status = pack(*plan_, operands.weight, packed_->device(), context);
      operands.weight = packed_->device();
    }
    if (status.ok()) status = plan::run(*plan_, operands, packed, context, workspace_bytes);
    if (status.ok()) status = target_.finish();
    margins(false);
    if (!status.ok()) return said("the run", status);
    failure = pull_all();
    if (failure.empty()) failure = untouched();
    if (!failure.empty()) return failure;
    return run == 0 ? judge_values() : judge_bits();
  }

  std::string allocate(std::optional<Guarded>& buffer, std::size_t bytes, std::size_t shift) {
    if (buffer && buffer->bytes() == bytes) {
      buffer->poison();
      return said("memory", buffer->push());
    }
    auto made = Guarded::make(target_, Guarded::Kind::written, bytes, shift);
    if (!made.ok()) return said("memory", made.status());
    buffer.emplace(std::move(made.value()));
    return said("memory", buffer->push());
  }

  void margins(bool forbid) {
    auto mark = [&](std::optional<Guarded>& g) {
      if (!g) return;
      forbid ? g->forbid_margins(target_) : g->allow_margins(target_);
    };
    for (auto& operand : operands_) mark(operand);
    for (auto* buffer : {&output_, &workspace_, &packed_}) mark(*buffer);
  }

  std::string pull_all() {
    for (auto& operand : operands_) {
      if (operand && !operand->pull().ok()) return said("memory", operand->pull());
    }
    for (auto* buffer : {&output_, &workspace_, &packed_}) {
      Status status = (*buffer)->pull();
      if (!status.ok()) return said("memory", status);
    }
    return {};
  }

  std::string untouched() {
    const struct {
      const char* name;
      std::optional<Guarded>& buffer;
    } buffers[] = {{"x", operands_[0]},
                   {"weight", operands_[1]},
                   {"bias", operands_[2]},
                   {"grad_output", operands_[3]},
                   {"the output", output_},
                   {"the workspace", workspace_},
                   {"the packed weights", packed_}};
    for (const auto& [name, buffer] : buffers) {
      const int64_t at = buffer ? buffer->changed() : 0;
      if (at == 0) continue;
      const int64_t beyond = at < 0 ? -at : at - static_cast<int64_t>(buffer->bytes());
      return "wrote " + std::to_string(beyond) + " bytes " + (at < 0 ? "before " : "behind ") + name;
    }
    for (std::size_t role = 0; role < 4; ++role) {
      if (operands_[role] &&
          checksum(operands_[role]->host(), operands_[role]->bytes()) != checksums_[role]) {
        return std::string("changed its operand ") + kOperandNames[role];
      }
    }
    return {};
  }

  std::string place(int64_t index) const {
    if (problem_.operation != core::Operation::forward) return "output[" + std::to_string(index) + "]";
    const int64_t lout = problem_.lout();
    return "output[" + std::to_string(index / (problem_.cout * lout)) + "," +
           std::to_string(index / lout % problem_.cout) + "," + std::to_string(index % lout) + "]";
  }

  bool right(double got, const Exact& exact, const Bound& bound) const {
    // Below 2^24 float32 adds integers without error: the result is the exact sum, rounded once.
    if (fill_ != Fill::integers || exact.magnitude > 0x1p24) return bound.right(got, exact);
    double stored[1];
    reference::store(problem_.dtype, stored, 0, exact.value);
    return got == reference::load(problem_.dtype, stored, 0);
  }

  std::string judge_values() {
    const Bound bound(problem_, target_.arithmetic(problem_), static_cast<double>(most_terms(problem_)));
    int64_t wrong = 0;
    std::string first;
    for (int64_t i = 0; i < truth_.count(); ++i) {
      const Exact exact = truth_.at(i);
      const double got = reference::load(problem_.dtype, output_->host(), truth_.index(i));
      if (right(got, exact, bound)) continue;
      if (wrong++ > 0) continue;
      first = place(truth_.index(i)) + " is " + number(got) + ", float64 says " + number(exact.value) +
              (fill_ == Fill::integers ? ", exactly" : ", within " + number(bound.of(exact)));
    }
    if (wrong > 0) {
      return first + " (" + std::to_string(wrong) + " of " + std::to_string(truth_.count()) +
             " judged elements wrong)";
    }
    bits_.assign(output_->host(), output_->host() + output_->bytes());
    return unwritten();
  }

  // Sampled or not, no element may be NaN that was finite in truth; with data of numbers alone, none at all.
  std::string unwritten() const {
    if (fill_ == Fill::special) return {};
    const int64_t count = problem_.output_elements();
    if (truth_.count() == count) return {};
    for (int64_t i = 0; i < count; ++i) {
      const double got = reference::load(problem_.dtype, bits_.data(), i);
      if (got != got)
        return place(i) + " is NaN: it was not written, or something beyond an operand was read";
    }
    return {};
  }

  std::string judge_bits() const {
    const auto [a, b] = std::mismatch(bits_.begin(), bits_.end(), output_->host());
    if (a == bits_.end()) return {};
    const auto index =
        static_cast<int64_t>(static_cast<std::size_t>(a - bits_.begin()) / size_of(problem_.dtype));
    return place(index) + " has other bits on a second run: " +
           number(reference::load(problem_.dtype, bits_.data(), index)) + ", then " +
           number(reference::load(problem_.dtype, output_->host(), index));
  }

  const Problem& problem_;
  Fill fill_;
  Target& target_;
  std::span<std::optional<Guarded>> operands_;
  const uint64_t* checksums_;
  const Truth& truth_;
  std::optional<plan::Plan> plan_;
  std::string kernel_;
  std::optional<Guarded> output_, workspace_, packed_;
  std::vector<std::byte> bits_;  // the output of run 0
};

}  // namespace

Case::Case(std::unique_ptr<State> state) : state_(std::move(state)) {}
Case::~Case() = default;

core::Result<std::unique_ptr<Case>> Case::make(const Problem& problem, Fill fill, Target& target,
                                               const Options& options) {
  Status status = validate(problem);
  if (!status.ok()) return status;
  const std::size_t needed = memory_needed(problem, options);
  if (needed > target.memory_limit()) {
    return Status(core::Code::out_of_memory, "not judged: that takes " + std::to_string(needed >> 20) +
                                                 " MiB, and " + std::to_string(target.memory_limit() >> 20) +
                                                 " may be used");
  }
  std::unique_ptr<State> state(new State{problem, fill, target, options, {}, {}, {}, false});
  status = state->fill_operands();
  if (!status.ok()) return status;
  state->find_truth();
  return std::unique_ptr<Case>(new Case(std::move(state)));
}

Verdict Case::judge(const std::string& kernel) {
  State& s = *state_;
  Trial trial(s.problem, s.fill, s.target, s.operands, s.checksums, s.truth);
  Verdict verdict;
  verdict.failure = trial.run(kernel, s.device_operands());
  verdict.right = verdict.failure.empty();
  if (!verdict.right) verdict.failure = std::string(name_of(s.fill)) + ": " + verdict.failure;
  verdict.kernel = trial.kernel();
  verdict.sampled = s.sampled;
  return verdict;
}

std::vector<Verdict> judge(const Problem& problem, const std::string& kernel, Target& target,
                           const Options& options) {
  std::vector<std::string> names = {kernel};
  if (kernel == "all") {
    names.clear();
    for (const plan::KernelEntry* entry : supporting(problem, target.info(), target.options(0))) {
      names.push_back(entry->name);
    }
  }
  std::vector<Fill> fills = options.fills;
  if (fills.empty()) {
    Rng rng(options.seed, 79);
    fills = {Fill::integers, rng.pick({Fill::uniform, Fill::positive, Fill::spread, Fill::special})};
  }
  std::vector<Verdict> verdicts(names.size());
  for (const Fill fill : fills) {
    auto made = Case::make(problem, fill, target, options);
    if (!made.ok()) return {Verdict{false, "", made.status().message(), false}};
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (verdicts[i].right) verdicts[i] = made.value()->judge(names[i]);
    }
  }
  return verdicts;
}

std::size_t memory_needed(const Problem& p, const Options& options) {
  int64_t total = 0;
  for (int role = 0; role < 4; ++role) total += elements(p, role);
  // The output, its copy for the comparison of bits, float64 copies and sums of what is judged in full.
  const int64_t output = p.output_elements();
  double bytes = static_cast<double>(total + 2 * output) * static_cast<double>(size_of(p.dtype));
  if (!samples(p, options))
    bytes += 16.0 * static_cast<double>(total + p.x_elements()) + 24.0 * static_cast<double>(output);
  return static_cast<std::size_t>(bytes) + (std::size_t{1} << 20);
}

}  // namespace tconv::judge
