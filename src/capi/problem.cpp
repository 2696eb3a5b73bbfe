#include <cstddef>
#include <cstring>
#include <optional>

#include "capi/convert.hpp"
#include "capi/structs.hpp"
#include "core/conv1d.hpp"
#include "core/tensor_shapes.hpp"

namespace tconv::capi {
namespace {

constexpr int32_t kMostDims = 64;  // PyTorch's own limit; more is a count that was never set
constexpr int32_t kOperations = 5, kDtypes = 4, kPrecisions = 2, kGradBiases = 3;

core::Status check_enum(const char* name, int32_t value, int32_t count) {
  if (value >= 0 && value < count) return {};
  return {core::Code::invalid_problem,
          std::string(name) + " is " + std::to_string(value) + ": must be 0 to " + std::to_string(count - 1)};
}

core::Status check_words(const tconv_problem& c) {
  core::Status status = check_enum("operation", c.operation, kOperations);
  if (status.ok()) status = check_enum("dtype", c.dtype, kDtypes);
  if (status.ok()) status = check_enum("precision", c.precision, kPrecisions);
  if (status.ok()) status = check_flag("has_bias", c.has_bias);
  if (status.ok()) status = check_flag("x_contiguous", c.x_contiguous);
  if (status.ok()) status = check_flag("y_strided", c.y_strided);
  if (status.ok()) status = check_enum("grad_bias", c.grad_bias, kGradBiases);
  if (status.ok() && c.grad_bias != 0 && c.operation != TCONV_GRAD_WEIGHT) {
    return {core::Code::invalid_problem, "grad_bias is " + std::to_string(c.grad_bias) +
                                             ": must be 0 where operation is not 2, the weight gradient"};
  }
  return status;
}

// Callers set has_bias for the gradients of a call that has a bias, which read none; that of the weight is
// asked for the bias's gradient by a field that older callers leave at zero.
bool has_bias(const tconv_problem& c) {
  if (c.operation == TCONV_GRAD_WEIGHT) return c.grad_bias != TCONV_GRAD_BIAS_NONE;
  return c.has_bias != 0 && c.operation != TCONV_GRAD_INPUT;
}

struct Number {
  int64_t tconv_problem::*c;
  int64_t core::Problem::*core;
};
constexpr Number kNumbers[] = {{&tconv_problem::n, &core::Problem::n},
                               {&tconv_problem::cin, &core::Problem::cin},
                               {&tconv_problem::cout, &core::Problem::cout},
                               {&tconv_problem::l, &core::Problem::l},
                               {&tconv_problem::k, &core::Problem::k},
                               {&tconv_problem::stride, &core::Problem::stride},
                               {&tconv_problem::padding, &core::Problem::padding},
                               {&tconv_problem::output_padding, &core::Problem::output_padding},
                               {&tconv_problem::dilation, &core::Problem::dilation},
                               {&tconv_problem::groups, &core::Problem::groups}};

core::Problem to_core(const tconv_problem& c) {
  core::Problem p;
  p.operation =
      c.operation == TCONV_STRIDED ? core::Operation::strided : static_cast<core::Operation>(c.operation);
  p.dtype = static_cast<core::DType>(c.dtype);
  p.precision = static_cast<core::Precision>(c.precision);
  p.has_bias = has_bias(c);
  p.bias_of_x = c.grad_bias == TCONV_GRAD_BIAS_OF_X;
  for (const Number& number : kNumbers) p.*number.core = c.*number.c;
  p.x_contiguous = c.x_contiguous != 0;
  if (!p.x_contiguous) p.x_stride = {c.x_stride[0], c.x_stride[1], c.x_stride[2]};
  p.y_contiguous = c.y_strided == 0;
  if (!p.y_contiguous) p.y_stride = {c.y_stride[0], c.y_stride[1], c.y_stride[2]};
  return p;
}

// And the problem is valid.
core::Status take_valid(const tconv_problem* given, core::Problem& problem) {
  core::Status status = take_problem(given, problem);
  return status.ok() ? validate(problem) : status;
}

core::Status take_shape(const char* name, const int64_t* sizes, int32_t dims, core::Shape& shape) {
  const std::string tensor = name;
  if (dims < 0 || dims > kMostDims) {
    return refuse(tensor + "_dims is " + std::to_string(dims) + ": must be 0 to " +
                  std::to_string(kMostDims));
  }
  if (sizes == nullptr && dims > 0) return refuse(tensor + " is null");
  shape = core::Shape(sizes, static_cast<std::size_t>(dims));
  return {};
}

core::Status elements_of(const core::Problem& p, int32_t tensor, int64_t& elements) {
  switch (tensor) {
    case TCONV_X:
      elements = p.x_span();
      return {};
    case TCONV_WEIGHT:
      elements = p.weight_elements();
      return {};
    case TCONV_BIAS:
      elements = p.has_bias ? p.bias_channels() : 0;
      return {};
    case TCONV_Y:
      elements = p.reads_y() ? p.y_span() : p.y_elements();
      return {};
    case TCONV_OUTPUT:
      elements = p.output_elements();
      return {};
    default:
      return refuse("tensor is " + std::to_string(tensor) + ": must be 0 to 4");
  }
}

}  // namespace

core::Status check_flag(const char* name, int32_t value) {
  if (value == 0 || value == 1) return {};
  return refuse(std::string(name) + " is " + std::to_string(value) + ": must be 0 or 1");
}

core::Status take_problem(const tconv_problem* given, core::Problem& problem, const char* name) {
  if (given == nullptr) return refuse(std::string(name) + " is null");
  tconv_problem known;
  core::Status status = read(given, known);
  if (status.ok()) status = check_words(known);
  if (status.ok()) problem = to_core(known);
  return status;
}

// The numbers of a Conv1d, and which of its passes: `operation` has its number.
core::Status take_call(const tconv_problem* given, core::Problem& call, core::Conv1dPass& pass) {
  core::Status status = take_problem(given, call, "call");
  if (!status.ok()) return status;
  if (given->operation == TCONV_STRIDED) {
    return {core::Code::invalid_problem,
            "operation is 4: a Conv1d has the passes 0 to 3, forward and three gradients"};
  }
  if (call.bias_of_x) {
    return {core::Code::invalid_problem,
            "grad_bias is 2: must be 0 or 1 in a Conv1d, 1 for the sums of its dy"};
  }
  pass = static_cast<core::Conv1dPass>(given->operation);
  return status;
}

tconv_problem to_c(const core::Problem& p) {
  tconv_problem c = {};
  c.operation = p.operation == core::Operation::strided ? TCONV_STRIDED : static_cast<int32_t>(p.operation);
  c.dtype = static_cast<int32_t>(p.dtype);
  c.precision = static_cast<int32_t>(p.precision);
  c.has_bias = p.has_bias ? 1 : 0;
  if (p.writes_grad_bias()) c.grad_bias = p.bias_of_x ? TCONV_GRAD_BIAS_OF_X : TCONV_GRAD_BIAS_OF_Y;
  for (const Number& number : kNumbers) c.*number.c = p.*number.core;
  c.x_contiguous = p.x_contiguous ? 1 : 0;
  c.y_strided = p.y_contiguous ? 0 : 1;
  for (std::size_t i = 0; i < 3; ++i) {
    c.x_stride[i] = p.x_stride[i];
    c.y_stride[i] = p.y_stride[i];
  }
  return c;
}

core::Status give_problem(const core::Problem& p, tconv_problem* problem, std::size_t size) {
  tconv_problem c = to_c(p);
  // Callers built with the first header know the strided product by this name.
  const bool old = size < offsetof(tconv_problem, y_stride);
  if (old && c.operation == TCONV_STRIDED && c.has_bias == 0) c.operation = TCONV_GRAD_INPUT;
  if (old)
    c.grad_bias = TCONV_GRAD_BIAS_NONE;  // their word "bias" asks for nothing but the weight's gradient
  return write(c, problem, size);
}

}  // namespace tconv::capi

using tconv::capi::guarded;
using tconv::capi::refuse;
using tconv::core::Problem;
using tconv::core::Status;

tconv_status tconv_problem_init_sized(tconv_problem* problem, size_t struct_size) {
  return guarded([&] { return tconv::capi::give_problem({}, problem, struct_size); });
}

tconv_status tconv_problem_parse_sized(const char* text, tconv_problem* problem, size_t struct_size) {
  return guarded([&]() -> Status {
    if (text == nullptr) return refuse("text is null");
    if (problem == nullptr) return refuse("problem is null");
    auto parsed = tconv::core::parse(text);
    if (!parsed.ok()) return parsed.status();
    return tconv::capi::give_problem(parsed.value(), problem, struct_size);
  });
}

tconv_status tconv_conv1d_problem_sized(const tconv_problem* call, tconv_problem* problem,
                                        size_t struct_size) {
  return guarded([&]() -> Status {
    Problem taken;
    auto pass = tconv::core::Conv1dPass::forward;
    Status status = tconv::capi::take_call(call, taken, pass);
    if (!status.ok()) return status;
    if (problem == nullptr) return refuse("problem is null");
    auto made = tconv::core::conv1d_problem(taken, pass);
    if (!made.ok()) return made.status();
    return tconv::capi::give_problem(made.value(), problem, struct_size);
  });
}

tconv_status tconv_problem_from_shapes(tconv_problem* problem, const int64_t* input, int32_t input_dims,
                                       const int64_t* weight, int32_t weight_dims, const int64_t* bias,
                                       int32_t bias_dims, int64_t length) {
  return guarded([&]() -> Status {
    Problem numbers;
    tconv::core::TensorShapes shapes;
    Status status = tconv::capi::take_problem(problem, numbers);
    if (status.ok()) status = tconv::capi::take_shape("input", input, input_dims, shapes.input);
    if (status.ok()) status = tconv::capi::take_shape("weight", weight, weight_dims, shapes.weight);
    if (status.ok() && bias_dims != -1) {
      status = tconv::capi::take_shape("bias", bias, bias_dims, shapes.bias.emplace());
    }
    if (!status.ok()) return status;
    if (length < -1) return refuse("length is " + std::to_string(length) + ": must be -1 or more");
    if (length != -1 && numbers.operation == tconv::core::Operation::transposed) {
      return refuse("length is " + std::to_string(length) + ": must be -1 for a transposed convolution");
    }
    auto made = problem_of(numbers, shapes, length < 0 ? std::nullopt : std::optional(length));
    if (!made.ok()) return made.status();
    return tconv::capi::give_problem(made.value(), problem, problem->struct_size);
  });
}

tconv_status tconv_problem_set_output_length(tconv_problem* problem, int64_t lout) {
  return guarded([&]() -> Status {
    Problem p;
    Status status = tconv::capi::take_problem(problem, p);
    if (status.ok()) status = set_lout(p, lout);
    if (!status.ok()) return status;
    return tconv::capi::give_problem(p, problem, problem->struct_size);
  });
}

tconv_status tconv_problem_text(const tconv_problem* problem, char* text, size_t capacity, size_t* length) {
  return guarded([&]() -> Status {
    Problem p;
    Status status = tconv::capi::take_problem(problem, p);
    if (!status.ok()) return status;
    if (text == nullptr && capacity > 0) return refuse("text is null");
    if (length == nullptr && capacity == 0) return refuse("length is null, and capacity is 0");
    const std::string line = tconv::core::text(p);
    if (length != nullptr) *length = line.size();
    if (capacity == 0) return {};
    if (capacity <= line.size()) {
      return refuse("capacity is " + std::to_string(capacity) + ": the text needs " +
                    std::to_string(line.size() + 1));
    }
    std::memcpy(text, line.c_str(), line.size() + 1);
    return {};
  });
}

tconv_status tconv_problem_check(const tconv_problem* problem) {
  return guarded([&] {
    Problem p;
    return tconv::capi::take_valid(problem, p);
  });
}

tconv_status tconv_output_length(const tconv_problem* problem, int64_t* lout) {
  return guarded([&]() -> Status {
    Problem p;
    Status status = tconv::capi::take_valid(problem, p);
    if (!status.ok()) return status;
    if (lout == nullptr) return refuse("lout is null");
    *lout = p.lout();
    return {};
  });
}

tconv_status tconv_tensor_elements(const tconv_problem* problem, int32_t tensor, int64_t* elements) {
  return guarded([&]() -> Status {
    Problem p;
    Status status = tconv::capi::take_valid(problem, p);
    if (!status.ok()) return status;
    if (elements == nullptr) return refuse("elements is null");
    return tconv::capi::elements_of(p, tensor, *elements);
  });
}
