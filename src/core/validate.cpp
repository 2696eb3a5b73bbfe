#include "core/checked.hpp"
#include "core/problem.hpp"

namespace tconv::core {
namespace {

constexpr int64_t kMaxBytes = Size::kLargest / 4;  // room for a kernel's own padding

Status refuse(const std::string& argument, int64_t value, const std::string& rule) {
  return {Code::invalid_problem, argument + " is " + std::to_string(value) + ": " + rule};
}

Status check_ranges(const Problem& p) {
  const struct {
    const char* name;
    int64_t value, least;
  } rules[] = {{"n", p.n, 0},
               {"cin", p.cin, 1},
               {"cout", p.cout, 1},
               {"l", p.l, 1},
               {"k", p.k, 1},
               {"stride", p.stride, 1},
               {"padding", p.padding, 0},
               {"output_padding", p.output_padding, 0},
               {"dilation", p.dilation, 1},
               {"groups", p.groups, 1}};
  for (const auto& rule : rules) {
    if (rule.value < rule.least) {
      return refuse(rule.name, rule.value, "must be " + std::to_string(rule.least) + " or more");
    }
  }
  return {};
}

Status check_relations(const Problem& p) {
  if (p.cin % p.groups != 0) {
    return refuse("groups", p.groups, "must divide cin, which is " + std::to_string(p.cin));
  }
  if (p.cout % p.groups != 0) {
    return refuse("groups", p.groups, "must divide cout, which is " + std::to_string(p.cout));
  }
  if (p.output_padding >= p.stride && p.output_padding >= p.dilation) {
    return refuse("output_padding", p.output_padding,
                  "must be less than stride or dilation, which are " + std::to_string(p.stride) + " and " +
                      std::to_string(p.dilation));
  }
  if (p.precision == Precision::tf32 && p.dtype != DType::f32) {
    return {Code::invalid_problem,
            std::string("precision is tf32: only dtype f32 has it, and dtype is ") + name_of(p.dtype)};
  }
  return {};
}

Status too_large(const char* what) {
  return {Code::invalid_problem, std::string(what) + " overflows 63 bits: make the problem smaller"};
}

Status check_sizes(const Problem& p) {
  const Size full = Size(p.l - 1) * p.stride + Size(p.dilation) * (p.k - 1) + p.output_padding + 1;
  const Size cut = Size(2) * p.padding;
  if (!full.fits() || !cut.fits()) return too_large("the output length");
  const int64_t lout = full.value() - cut.value();
  if (lout < 0) {
    return refuse("padding", p.padding,
                  "leaves an output length of " + std::to_string(lout) + ", which must be 0 or more");
  }
  const Size element(static_cast<int64_t>(size_of(p.dtype)));
  const struct {
    const char* what;
    Size bytes;
  } sizes[] = {{"the size of x in bytes", Size(p.n) * p.cin * p.l * element},
               {"the size of the weight in bytes", Size(p.cin) * (p.cout / p.groups) * p.k * element},
               {"the size of y in bytes", Size(p.n) * p.cout * lout * element},
               {"n*cout*8", Size(p.n) * p.cout * 8},
               {"cin*l*8", Size(p.cin) * p.l * 8},
               {"cout*lout*8", Size(p.cout) * lout * 8},
               {"cin*cout*k*8", Size(p.cin) * p.cout * p.k * 8}};
  for (const auto& size : sizes) {
    if (size.bytes > kMaxBytes) return too_large(size.what);
  }
  return {};
}

Status check_strides(const Problem& p) {
  if (p.x_contiguous) return {};
  static const char* const names[] = {"x_stride[0]", "x_stride[1]", "x_stride[2]"};
  for (int i = 0; i < 3; ++i) {
    if (p.x_stride[i] < 0) return refuse(names[i], p.x_stride[i], "must be 0 or more");
  }
  if (p.operation == Operation::grad_input || p.operation == Operation::grad_bias) {
    return {Code::invalid_problem,
            std::string("x_stride is given: operation ") + name_of(p.operation) + " does not read x"};
  }
  const Size span = Size(p.n) * p.x_stride[0] + Size(p.cin) * p.x_stride[1] + Size(p.l) * p.x_stride[2] + 1;
  if (span * static_cast<int64_t>(size_of(p.dtype)) > kMaxBytes) return too_large("the span of x in bytes");
  return {};
}

template <class E>
Status check_enum(const char* name, E value, int count) {
  const int v = static_cast<int>(value);
  if (v < 0 || v >= count) return refuse(name, v, "must be 0 to " + std::to_string(count - 1));
  return {};
}

}  // namespace

Status validate(const Problem& p) {
  Status status = check_enum("operation", p.operation, 4);
  if (status.ok()) status = check_enum("dtype", p.dtype, 4);
  if (status.ok()) status = check_enum("precision", p.precision, 2);
  if (status.ok()) status = check_ranges(p);
  if (status.ok()) status = check_relations(p);
  if (status.ok()) status = check_sizes(p);
  if (status.ok()) status = check_strides(p);
  return status;
}

}  // namespace tconv::core
