#include "judge/case.hpp"

#include <algorithm>
#include <string>

namespace tconv::judge {

using core::Problem;
using core::Status;

const char* const kOperandNames[4] = {"x", "weight", "bias", "grad_output"};

namespace {

bool reads(const Problem& p, int role) {
  const bool roles[] = {p.reads_x(), p.reads_weight(), p.reads_bias(), p.reads_y()};
  return roles[role];
}

int64_t elements(const Problem& p, int role) {
  const int64_t counts[] = {p.x_span(), p.weight_elements(), p.bias_channels(), p.y_span()};
  return reads(p, role) ? counts[role] : 0;
}

bool samples(const Problem& p, const JudgeOptions& options) {
  const int64_t most =
      std::max({written_elements(p), elements(p, 0), elements(p, 3), p.x_elements(), p.y_elements()});
  return work_of(p).flops / 2 > options.all_products || most > options.all_elements;
}

}  // namespace

std::size_t memory_needed(const Problem& p, const JudgeOptions& options) {
  int64_t operands = 0;
  for (int role = 0; role < 4; ++role) operands += elements(p, role);
  const auto element = static_cast<double>(size_of(p.dtype));
  const auto output = static_cast<double>(written_elements(p));
  // Operands, the output, and its copy for the comparison of bits.
  double bytes = static_cast<double>(operands) * element + output * element;
  bytes += std::min(output * element, static_cast<double>(kKeptBits));
  // Judged in full: float64 copies (two with tf32) of the operands and three sums for each output.
  if (!samples(p, options))
    bytes += 16.0 * static_cast<double>(operands + p.x_elements() + p.y_elements()) + 24.0 * output;
  return static_cast<std::size_t>(bytes) + (std::size_t{1} << 20);
}

plan::Operands Case::host_operands() {
  auto at = [&](int role) -> void* { return operands[role] ? operands[role]->host() : nullptr; };
  return {at(0), at(1), at(2), at(3), nullptr};
}

plan::Operands Case::device_operands() {
  auto at = [&](int role) -> void* { return operands[role] ? operands[role]->device() : nullptr; };
  return {at(0), at(1), at(2), at(3), nullptr};
}

Status Case::fill_operands() {
  Rng rng(options.seed, 77);
  const std::size_t element = size_of(problem.dtype);
  for (int role = 0; role < 4; ++role) {
    if (!reads(problem, role)) continue;
    // Tensors need only the alignment of their element type.
    const std::size_t shift =
        options.aligned || rng.chance(50) ? 0 : static_cast<std::size_t>(rng.between(1, 31)) * element;
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

void Case::find_truth() {
  const bool tf32 = target.arithmetic(problem).tf32;
  sampled = samples(problem, options);
  Rng rng(options.seed, 78);
  truth = sampled ? Truth::sampled(problem, host_operands(), tf32, rng)
                  : Truth::all(problem, host_operands(), tf32);
}

core::Result<std::unique_ptr<Case>> Case::make(const Problem& problem, Fill fill, Target& target,
                                               const JudgeOptions& options) {
  auto made = operands_only(problem, fill, target, options);
  if (!made.ok()) return Status(made.status().code(), "not judged: " + made.status().message());
  made.value()->find_truth();
  return made;
}

core::Result<std::unique_ptr<Case>> Case::operands_only(const Problem& problem, Fill fill, Target& target,
                                                        const JudgeOptions& options) {
  Status status = validate(problem);
  if (!status.ok()) return status;
  const std::size_t needed = memory_needed(problem, options);
  if (needed > target.memory_limit()) {
    return Status(core::Code::out_of_memory, "it needs " + std::to_string(needed >> 20) + " MiB, and " +
                                                 std::to_string(target.memory_limit() >> 20) +
                                                 " is the limit");
  }
  std::unique_ptr<Case> made(new Case(problem, fill, target, options));
  status = made->fill_operands();
  if (!status.ok()) return status;
  return made;
}

}  // namespace tconv::judge
