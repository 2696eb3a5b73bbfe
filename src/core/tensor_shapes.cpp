#include "core/tensor_shapes.hpp"

#include <string>
#include <utility>

#include "core/conv1d.hpp"
#include "core/rules.hpp"

namespace tconv::core {
namespace {

std::string words(Shape shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Status refuse_shape(const char* tensor, Shape shape, const std::string& rule) {
  return {Code::invalid_problem, std::string(tensor) + " has shape " + words(shape) + ": " + rule};
}

std::string needs(const Problem& p, Shape weight, int64_t channels, const char* close = "") {
  const std::string groups = p.groups == 1 ? "" : " and groups " + std::to_string(p.groups);
  return "weight of shape " + words(weight) + groups + " needs " + std::to_string(channels) + close;
}

// The rules for each tensor by itself.
Status check_each(const Problem& p, const TensorShapes& s) {
  const bool transposed = p.operation == Operation::transposed;
  if (s.input.size() != 2 && s.input.size() != 3) {
    return refuse_shape("input", s.input, "it must be (batch, channels, length) or (channels, length)");
  }
  if (s.weight.size() != 3) {
    return refuse_shape("weight", s.weight,
                        transposed ? "it must be (in_channels, out_channels/groups, kernel_size)"
                                   : "it must be (out_channels, in_channels/groups, kernel_size)");
  }
  if (p.groups < 1) return refuse("groups", p.groups, "must be 1 or more");
  const Size grouped = Size(s.weight[1]) * p.groups;
  if (!grouped.fits()) return too_large(transposed ? "groups*out_channels" : "groups*in_channels");
  return {};
}

// How they must fit together. The weight's channels times the groups are known to fit in 63 bits.
Status check_together(const Problem& p, const TensorShapes& s) {
  const bool transposed = p.operation == Operation::transposed;
  const int64_t outer = s.weight[0], inner = s.weight[1] * p.groups;
  const int64_t channels = s.input[s.input.size() - 2], wanted = transposed ? outer : inner;
  if (channels != wanted) {
    return {Code::invalid_problem, "input has " + std::to_string(channels) + " channels (shape " +
                                       words(s.input) + "): " + needs(p, s.weight, wanted)};
  }
  if (outer % p.groups != 0) {
    return refuse(
        "groups", p.groups,
        "must divide the " + std::to_string(outer) + (transposed ? " input channels" : " output channels"));
  }
  for (const int64_t size : s.weight) {
    if (size < 1) return refuse_shape("weight", s.weight, "it must not be empty");
  }
  const int64_t out = transposed ? inner : outer;
  if (s.bias && (s.bias->size() != 1 || (*s.bias)[0] != out)) {
    return refuse_shape("bias", *s.bias, needs(p, s.weight, out, " elements"));
  }
  if (s.input.back() < 1 && transposed) return refuse_shape("input", s.input, "its length must be 1 or more");
  return {};
}

Result<Problem> transposed_of(Problem p, const TensorShapes& s) {
  p.cin = s.weight[0], p.cout = s.weight[1] * p.groups;
  p.l = s.input.back();
  Status status = validate(p);
  if (!status.ok()) return status;
  return p;
}

// A strided product takes the names of its sizes from the transposed product whose gradient it is; Conv1d has
// names of its own.
Result<Problem> conv1d_of(Problem call, const TensorShapes& s) {
  if (s.input.back() < 1) return refuse_shape("input", s.input, "its length must be 1 or more");
  call.cin = s.weight[1] * call.groups, call.cout = s.weight[0];
  call.l = s.input.back();
  std::swap(call.x_contiguous, call.y_contiguous);
  std::swap(call.x_stride, call.y_stride);
  return conv1d_problem(call, Conv1dPass::forward);
}

Result<Problem> strided_of(Problem p, const TensorShapes& s, int64_t length) {
  p.cin = s.weight[0], p.cout = s.weight[1] * p.groups;
  p.l = length;
  Status status = set_lout(p, s.input.back());
  if (status.ok()) status = validate(p);
  if (!status.ok()) return status;
  return p;
}

}  // namespace

Status set_lout(Problem& p, int64_t lout) {
  p.output_padding = 0;
  Status status = check_ranges(p);
  if (!status.ok()) return status;
  const Size least = full_length(p), padded = Size(2) * p.padding + lout;
  if (lout < 0 || !least.fits() || !padded.fits() || padded < least) {
    return refuse("the output length", lout,
                  "no output_padding gives it for an input length of " + std::to_string(p.l));
  }
  p.output_padding = padded.value() - least.value();
  return {};
}

Result<Problem> problem_of(const Problem& numbers, const TensorShapes& shapes,
                           std::optional<int64_t> length) {
  if (numbers.operation != Operation::transposed && numbers.operation != Operation::strided) {
    return refuse("operation", static_cast<int>(numbers.operation),
                  "must be the transposed or the strided product, which read a weight");
  }
  Status status = check_each(numbers, shapes);
  if (status.ok()) status = check_together(numbers, shapes);
  if (!status.ok()) return status;
  Problem p = numbers;
  p.n = shapes.input.size() == 3 ? shapes.input[0] : 1;
  p.k = shapes.weight[2];
  p.has_bias = shapes.bias.has_value();
  if (p.operation == Operation::transposed) return transposed_of(p, shapes);
  return length ? strided_of(p, shapes, *length) : conv1d_of(p, shapes);
}

}  // namespace tconv::core
