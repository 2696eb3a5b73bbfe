#include "judge/trial.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/nan.hpp"
#include "judge/bound.hpp"
#include "reference/reference.hpp"

namespace tconv::judge {
namespace {

using core::Status;

constexpr std::size_t kMostPlaces = 8;  // wrong elements that are reported with what computed them

std::string said(const char* what, const Status& status) {
  return status.ok() ? "" : std::string(what) + ": " + status.message();
}

std::string number(double v) {
  if (std::isnan(v)) return "NaN";
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", v);
  return text;
}

}  // namespace

std::string Trial::run(const Subject& subject) {
  for (int run = 0; run < 2; ++run) {
    std::string failure = make_plan(run, subject);
    if (failure.empty()) failure = run_once(run);
    if (!failure.empty()) return failure;
  }
  return {};
}

std::string Trial::make_plan(int run, const Subject& subject) {
  plan::PlanOptions options = case_.target.options(run);
  options.force_kernel = subject.name;
  if (subject.entry != nullptr) {
    const core::DeviceInfo& device = case_.target.info();
    auto kernel = subject.entry->make(case_.problem, device, options);
    plan_.emplace(plan::Plan{case_.problem, device, options, subject.entry, std::move(kernel), {}});
  } else {
    auto made = plan::make_plan(case_.problem, case_.target.info(), options);
    if (!made.ok()) return "no plan: " + made.status().message();
    plan_.emplace(std::move(made.value()));
  }
  kernel_ = plan_->entry->name;
  return {};
}

std::string Trial::run_once(int run) {
  const core::Problem& p = case_.problem;
  const std::size_t packed_bytes = plan_->packed_bytes();
  const bool packed = run == 1 && p.reads_weight();
  const std::size_t element = size_of(p.dtype);
  const auto output_bytes = static_cast<std::size_t>(p.output_elements()) * element;
  std::string failure = allocate(output_, output_bytes, case_.options.seed % 2 == 0 ? 0 : element);
  const auto bias_bytes = static_cast<std::size_t>(p.grad_bias_elements()) * element;
  if (failure.empty()) failure = allocate(grad_bias_, bias_bytes, case_.options.seed % 3 == 0 ? 0 : element);
  if (failure.empty()) failure = allocate(workspace_, plan_->workspace_bytes(packed), 0);
  if (failure.empty()) failure = allocate(packed_, packed ? packed_bytes : 0, 0);
  if (!failure.empty()) return failure;

  margins(true);
  const Status status = launch(run, packed);
  margins(false);
  if (!status.ok()) return said("the run failed", status);
  failure = pull_all();
  if (failure.empty()) failure = untouched();
  if (!failure.empty()) return failure;
  return run == 0 ? judge_values() : judge_bits();
}

std::string Trial::allocate(std::optional<Guarded>& buffer, std::size_t bytes, std::size_t shift) {
  if (buffer && buffer->bytes() == bytes) {
    buffer->poison();
    return said("memory", buffer->push());
  }
  buffer.reset();
  auto made = Guarded::make(case_.target, Guarded::Kind::written, bytes, shift);
  if (!made.ok()) return said("memory", made.status());
  buffer.emplace(std::move(made.value()));
  return said("memory", buffer->push());
}

Status Trial::launch(int run, bool packed) {
  plan::Operands operands = case_.device_operands();
  operands.output = output_->device();
  if (case_.problem.writes_grad_bias()) operands.grad_bias = grad_bias_->device();
  plan::RunContext context = case_.target.context(run);
  context.workspace = workspace_->device();
  Status status;
  if (packed) {
    status = plan::pack(*plan_, operands.weight, packed_->device(), context);
    operands.weight = packed_->device();
  }
  if (status.ok()) status = plan::run(*plan_, operands, packed, context, workspace_->bytes());
  if (status.ok()) status = case_.target.finish();
  return status;
}

void Trial::margins(bool forbid) {
  auto mark = [&](std::optional<Guarded>& g) {
    if (g && forbid) g->forbid_margins(case_.target);
    if (g && !forbid) g->allow_margins(case_.target);
  };
  for (auto& operand : case_.operands) mark(operand);
  for (auto* buffer : {&output_, &grad_bias_, &workspace_, &packed_}) mark(*buffer);
}

std::string Trial::pull_all() {
  Status status;
  for (auto& operand : case_.operands) {
    if (operand && status.ok()) status = operand->pull();
  }
  for (auto* buffer : {&output_, &grad_bias_, &workspace_, &packed_}) {
    if (status.ok()) status = (*buffer)->pull();
  }
  return said("memory", status);
}

std::string Trial::untouched() {
  const struct {
    const char* name;
    const std::optional<Guarded>& buffer;
  } buffers[] = {{"x", case_.operands[0]},      {"weight", case_.operands[1]},
                 {"bias", case_.operands[2]},   {"grad_output", case_.operands[3]},
                 {"the output", output_},       {"the bias gradient", grad_bias_},
                 {"the workspace", workspace_}, {"the packed weights", packed_}};
  for (const auto& [name, buffer] : buffers) {
    const int64_t at = buffer ? buffer->changed() : 0;
    if (at == 0) continue;
    const int64_t beyond = at < 0 ? -at : at - static_cast<int64_t>(buffer->bytes());
    return "wrote " + std::to_string(beyond) + " bytes " + (at < 0 ? "before " : "behind ") + name;
  }
  for (int role = 0; role < 4; ++role) {
    const auto& operand = case_.operands[role];
    if (operand && checksum(operand->host(), operand->bytes()) != case_.checksums[role]) {
      return std::string("changed its operand ") + kOperandNames[role];
    }
  }
  return {};
}

std::string Trial::place(int64_t index) const {
  const core::Problem& p = case_.problem;
  if (index >= p.output_elements()) {
    return "grad_bias[" + std::to_string(index - p.output_elements()) + "]";
  }
  if (p.operation != core::Operation::transposed) return "output[" + std::to_string(index) + "]";
  const int64_t lout = p.lout();
  return "output[" + std::to_string(index / (p.cout * lout)) + "," + std::to_string(index / lout % p.cout) +
         "," + std::to_string(index % lout) + "]";
}

const std::byte* Trial::output_place(int64_t index) const {
  const int64_t outputs = case_.problem.output_elements();
  const auto element = static_cast<int64_t>(size_of(case_.problem.dtype));
  return index < outputs ? output_->host() + index * element
                         : grad_bias_->host() + (index - outputs) * element;
}

double Trial::output_at(int64_t index) const {
  return reference::load(case_.problem.dtype, output_place(index), 0);
}

std::vector<std::byte> Trial::written() const {
  std::vector<std::byte> bytes(output_->host(), output_->host() + output_->bytes());
  bytes.insert(bytes.end(), grad_bias_->host(), grad_bias_->host() + grad_bias_->bytes());
  return bytes;
}

uint64_t Trial::written_checksum() const {
  return checksum(output_->host(), output_->bytes()) ^
         (checksum(grad_bias_->host(), grad_bias_->bytes()) << 1);
}

uint64_t Trial::output_bits(int64_t index) const {
  const std::size_t element = size_of(case_.problem.dtype);
  uint64_t bits = 0;  // little-endian, as on every machine that this runs on
  std::memcpy(&bits, output_place(index), element);
  return bits;
}

bool Trial::strange(int64_t index) const {
  return std::isnan(output_at(index)) && output_bits(index) != core::canonical_nan(case_.problem.dtype);
}

bool Trial::right(double got, const Exact& exact, const Bound& bound) const {
  // If only zeros were added, -0.0 is a bias that met no product. (With float64 operands, the products may
  // also have been too small to count.)
  const bool zeros = exact.magnitude == 0 && exact.value == 0;
  const bool small = case_.problem.dtype == core::DType::f64 && !std::signbit(exact.value);
  if (zeros && !small && std::signbit(got) != std::signbit(exact.value)) return false;
  // Below 2^24 float32 adds integers without error: the result is the exact sum, rounded once.
  if (case_.fill != Fill::integers || exact.magnitude > 0x1p24) return bound.right(got, exact);
  double stored[1];
  reference::store(case_.problem.dtype, stored, 0, exact.value);
  return got == reference::load(case_.problem.dtype, stored, 0);
}

std::string Trial::judge_values() {
  const core::Problem& p = case_.problem;
  const Arithmetic arithmetic = case_.target.arithmetic(p);
  const Bound of_output(p, arithmetic, static_cast<double>(most_terms(p)));
  const Bound of_bias(p, arithmetic,
                      p.writes_grad_bias() ? static_cast<double>(most_terms(grad_bias_of(p))) : 0);
  const Truth& truth = case_.truth;
  int64_t wrong = 0;
  std::string first;
  for (int64_t i = 0; i < truth.count(); ++i) {
    const Exact exact = truth.at(i);
    const double got = output_at(truth.index(i));
    const Bound& bound = truth.index(i) < p.output_elements() ? of_output : of_bias;
    if (right(got, exact, bound)) continue;
    if (where_.size() < kMostPlaces) {
      const std::string maker = plan_->kernel->where(truth.index(i));
      if (!maker.empty()) where_.push_back(place(truth.index(i)) + ": " + maker);
    }
    if (wrong++ > 0) continue;
    first = place(truth.index(i)) + " is " + number(got) + ", float64 says " + number(exact.value) +
            (case_.fill == Fill::integers ? ", exactly" : ", within " + number(bound.of(exact)));
  }
  if (wrong > 0) {
    return first + " (" + std::to_string(wrong) + " of " + std::to_string(truth.count()) +
           " judged elements are wrong)";
  }
  if (output_->bytes() <= kKeptBits) bits_ = written();
  bits_checksum_ = written_checksum();
  return case_.fill == Fill::special ? strange_nan() : unwritten();
}

// The poison is not the canonical NaN, so this finds every element that was not written, sampled or not.
std::string Trial::strange_nan() const {
  const int64_t count = written_elements(case_.problem);
  for (int64_t i = 0; i < count; ++i) {
    if (!strange(i)) continue;
    char bits[32];
    std::snprintf(bits, sizeof(bits), "%llx", static_cast<unsigned long long>(output_bits(i)));
    return place(i) + " is a NaN of bits 0x" + bits + ": not the canonical one, or never written";
  }
  return {};
}

// For sampled outputs: all operands are numbers, so no element may be NaN.
std::string Trial::unwritten() const {
  const int64_t count = written_elements(case_.problem);
  if (case_.truth.count() == count) return {};
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isnan(output_at(i))) continue;
    return place(i) + " is NaN: it was not written, or something beyond an operand was read";
  }
  return {};
}

std::string Trial::judge_bits() const {
  if (written_checksum() == bits_checksum_) return {};
  if (bits_.empty()) return "the output has different bits on a second run";
  const std::vector<std::byte> now = written();
  const auto differs = std::mismatch(bits_.begin(), bits_.end(), now.begin()).first - bits_.begin();
  const int64_t index = differs / static_cast<int64_t>(size_of(case_.problem.dtype));
  return place(index) + " has other bits on a second run: " +
         number(reference::load(case_.problem.dtype, bits_.data(), index)) + ", then " +
         number(output_at(index));
}

}  // namespace tconv::judge
