#include "core/rules.hpp"

namespace tconv::core {
namespace {

template <class E>
Status check_enum(const char* name, E value, int count) {
  const int v = static_cast<int>(value);
  if (v < 0 || v >= count) return refuse(name, v, "must be 0 to " + std::to_string(count - 1));
  return {};
}

}  // namespace

Status refuse(const std::string& argument, int64_t value, const std::string& rule) {
  return {Code::invalid_problem, argument + " is " + std::to_string(value) + ": " + rule};
}

Status too_large(const char* what) {
  return {Code::invalid_problem, std::string(what) + " overflows 63 bits: make the problem smaller"};
}

Status check_words(const Problem& p) {
  Status status = check_enum("operation", p.operation, 4);
  if (status.ok()) status = check_enum("dtype", p.dtype, 4);
  if (status.ok()) status = check_enum("precision", p.precision, 2);
  if (status.ok() && p.precision == Precision::tf32 && p.dtype != DType::f32) {
    return {Code::invalid_problem,
            std::string("precision is tf32: only dtype f32 supports it, and dtype is ") + name_of(p.dtype)};
  }
  if (status.ok() && p.bias_of_x && !p.writes_grad_bias()) {
    return {Code::invalid_problem, std::string("xbias is given: operation ") + name_of(p.operation) +
                                       " writes no gradient of a bias, only weight does"};
  }
  return status;
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
  if (p.cin % p.groups != 0) {
    return refuse("groups", p.groups, "must divide cin, which is " + std::to_string(p.cin));
  }
  if (p.cout % p.groups != 0) {
    return refuse("groups", p.groups, "must divide cout, which is " + std::to_string(p.cout));
  }
  return {};
}

Size full_length(const Problem& p) {
  return Size(p.l - 1) * p.stride + Size(p.dilation) * (p.k - 1) + p.output_padding + 1;
}

Status check_sizes(const Problem& p, int64_t lout) {
  struct Bytes {
    const char* what;
    Size bytes;
  };
  const Size element(static_cast<int64_t>(size_of(p.dtype)));
  const Bytes sizes[] = {
      {"the size of x in bytes", Size(p.n) * p.cin * p.l * element},
      {"the size of the weight in bytes", Size(p.cin) * (p.cout / p.groups) * p.k * element},
      {"the size of y in bytes", Size(p.n) * p.cout * lout * element},
      {"n*cout*8", Size(p.n) * p.cout * 8},
      {"cin*l*8", Size(p.cin) * p.l * 8},
      {"cout*lout*8", Size(p.cout) * lout * 8},
      {"cin*cout*k*8", Size(p.cin) * p.cout * p.k * 8}};
  for (const Bytes& size : sizes) {
    if (size.bytes > kMaxBytes) return too_large(size.what);
  }
  return {};
}

Status check_steps(const Problem& p, const char* name, bool read, const std::string& operation,
                   const std::array<int64_t, 3>& shape, const std::array<int64_t, 3>& steps) {
  const std::string tensor = name;
  Size span = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (steps[i] < 0) {
      return refuse(tensor + "_stride[" + std::to_string(i) + "]", steps[i], "must be 0 or more");
    }
    span = span + Size(shape[i]) * steps[i];
  }
  if (!read) {
    return {Code::invalid_problem,
            tensor + "_stride is given: operation " + operation + " does not read " + tensor};
  }
  if (span * static_cast<int64_t>(size_of(p.dtype)) > kMaxBytes) {
    return too_large(("the span of " + tensor + " in bytes").c_str());
  }
  return {};
}

}  // namespace tconv::core
