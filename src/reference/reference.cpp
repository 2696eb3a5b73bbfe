#include "reference/reference.hpp"

#include <algorithm>
#include <cmath>

#include "core/float16.hpp"
#include "core/nan.hpp"
#include "core/polyphase.hpp"

namespace tconv::reference {
namespace {

using core::DType;
using core::Problem;
using plan::Operands;

struct Sum {
  Element element;
  void add(double a, double b) {
    element.value += a * b;
    element.magnitude += std::fabs(a * b);
    element.terms += 1;
  }
  // Without any product it is the bias itself, -0.0 included.
  void add_bias(double bias) {
    element.value = element.terms == 0 ? bias : element.value + bias;
    element.magnitude += std::fabs(bias);
  }
};

// (n, co, o) -> output of the transposed product.
Element transposed_at(const Problem& p, const core::Polyphase& form, const Operands& in, int64_t n,
                      int64_t co, int64_t o) {
  const auto steps = p.x_steps();
  const int64_t cin_g = p.cin_per_group(), cout_g = p.cout_per_group(), group = co / cout_g;
  const core::Polyphase::Taps taps = form.taps_at(o);
  Sum sum;
  for (int64_t ci = group * cin_g; ci < (group + 1) * cin_g && taps.count > 0; ++ci) {
    for (int64_t j = 0; j < taps.count; ++j) {
      const int64_t k = taps.k + j * form.tap_stride, i = taps.i - j * form.step;
      sum.add(load(p.dtype, in.x, n * steps[0] + ci * steps[1] + i * steps[2]),
              load(p.dtype, in.weight, (ci * cout_g + co % cout_g) * p.k + k));
    }
  }
  if (p.has_bias) sum.add_bias(load(p.dtype, in.bias, co));
  return sum.element;
}

// The v in [0, count) for which first + v*step is in [0, lout).
struct Range {
  int64_t begin, end;
};
Range inside(int64_t first, int64_t step, int64_t count, int64_t lout) {
  const int64_t begin = first >= 0 ? 0 : core::ceil_div(-first, step);
  const int64_t end = first >= lout ? 0 : core::floor_div(lout - 1 - first, step) + 1;
  return {begin, std::min(end, count)};
}

Element strided_at(const Problem& p, const Operands& in, int64_t n, int64_t ci, int64_t i) {
  const int64_t cout_g = p.cout_per_group(), group = ci / p.cin_per_group(), lout = p.lout();
  const int64_t first = p.stride * i - p.padding;
  const Range taps = inside(first, p.dilation, p.k, lout);
  const auto steps = p.y_steps();
  Sum sum;
  for (int64_t c = 0; c < cout_g && taps.begin < taps.end; ++c) {
    for (int64_t k = taps.begin; k < taps.end; ++k) {
      sum.add(load(p.dtype, in.grad_output,
                   n * steps[0] + (group * cout_g + c) * steps[1] + (first + k * p.dilation) * steps[2]),
              load(p.dtype, in.weight, (ci * cout_g + c) * p.k + k));
    }
  }
  if (p.has_bias) sum.add_bias(load(p.dtype, in.bias, ci));
  return sum.element;
}

Element weight_at(const Problem& p, const Operands& in, int64_t ci, int64_t c, int64_t k) {
  const auto steps = p.x_steps(), y_steps = p.y_steps();
  const int64_t co = ci / p.cin_per_group() * p.cout_per_group() + c, lout = p.lout();
  const int64_t first = k * p.dilation - p.padding;
  const Range inputs = inside(first, p.stride, p.l, lout);
  Sum sum;
  for (int64_t n = 0; n < p.n && inputs.begin < inputs.end; ++n) {
    for (int64_t i = inputs.begin; i < inputs.end; ++i) {
      sum.add(load(p.dtype, in.x, n * steps[0] + ci * steps[1] + i * steps[2]),
              load(p.dtype, in.grad_output,
                   n * y_steps[0] + co * y_steps[1] + (first + p.stride * i) * y_steps[2]));
    }
  }
  return sum.element;
}

Element bias_at(const Problem& p, const Operands& in, int64_t co) {
  const int64_t lout = p.lout();
  const auto steps = p.y_steps();
  Sum sum;
  for (int64_t n = 0; n < p.n && lout > 0; ++n) {
    for (int64_t o = 0; o < lout; ++o) {
      sum.add(load(p.dtype, in.grad_output, n * steps[0] + co * steps[1] + o * steps[2]), 1.0);
    }
  }
  return sum.element;
}

// Channel c of the gradient of a bias that a weight problem has.
Element grad_bias_at(const Problem& p, const Operands& in, int64_t c) {
  Operands summed;
  summed.grad_output = p.bias_of_x ? in.x : in.grad_output;
  return bias_at(core::grad_bias_of(p), summed, c);
}

Element element_with(const Problem& p, const core::Polyphase& form, const Operands& raw, int64_t index) {
  if (index >= p.output_elements()) return grad_bias_at(p, raw, index - p.output_elements());
  const int64_t lout = p.lout();
  switch (p.operation) {
    case core::Operation::transposed:
      return transposed_at(p, form, raw, index / (p.cout * lout), index / lout % p.cout, index % lout);
    case core::Operation::strided:
      return strided_at(p, raw, index / (p.cin * p.l), index / p.l % p.cin, index % p.l);
    case core::Operation::weight:
      return weight_at(p, raw, index / (p.cout_per_group() * p.k), index / p.k % p.cout_per_group(),
                       index % p.k);
    case core::Operation::bias:
      return bias_at(p, raw, index);
  }
  return {};
}

class ReferenceKernel final : public plan::Kernel {
 public:
  explicit ReferenceKernel(const Problem& problem) : problem_(problem), form_(problem) {}
  std::string describe() const override {
    return "scalar float64 loops over every output element: exact to one rounding, and slow";
  }
  core::Status run(const Operands& operands, const plan::RunContext& context) const override {
    // Blocks of outputs, so that a task takes longer than handing it to a thread.
    constexpr int64_t kBlock = 256;
    const int64_t outputs = problem_.output_elements(), count = outputs + problem_.grad_bias_elements();
    context.executor.run(core::ceil_div(count, kBlock), [&](int64_t block, int32_t) {
      const int64_t end = std::min(count, (block + 1) * kBlock);
      for (int64_t i = block * kBlock; i < end; ++i) {
        const double value = element_with(problem_, form_, operands, i).value;
        if (i < outputs) {
          store(problem_.dtype, operands.output, i, value);
        } else {
          store(problem_.dtype, operands.grad_bias, i - outputs, value);
        }
      }
    });
    return {};
  }

 private:
  Problem problem_;
  core::Polyphase form_;
};

plan::Support supports(const Problem&, const core::DeviceInfo&, const plan::PlanOptions&) {
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo&,
                                         const plan::PlanOptions&) {
  return std::make_unique<ReferenceKernel>(problem);
}

}  // namespace

double load(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::f32:
      return static_cast<double>(static_cast<const float*>(data)[index]);
    case DType::f64:
      return static_cast<const double*>(data)[index];
    case DType::f16:
      return static_cast<double>(core::f16_to_float(static_cast<const uint16_t*>(data)[index]));
    case DType::bf16:
      return static_cast<double>(core::bf16_to_float(static_cast<const uint16_t*>(data)[index]));
  }
  return 0;
}

void store(DType dtype, void* data, int64_t index, double value) {
  value = core::canonical(value);
  switch (dtype) {
    case DType::f32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case DType::f64:
      static_cast<double*>(data)[index] = value;
      return;
    case DType::f16:
      static_cast<uint16_t*>(data)[index] = core::double_to_f16(value);
      return;
    case DType::bf16:
      static_cast<uint16_t*>(data)[index] = core::double_to_bf16(value);
      return;
  }
}

Element element_at(const Problem& p, const Operands& raw, int64_t index) {
  return element_with(p, core::Polyphase(p), raw, index);
}

const plan::KernelEntry kEntry = {
    .name = "reference",
    .summary = "float64 scalar loops, every operation and every problem",
    .device = core::DeviceKind::cpu,
    .supports = supports,
    .make = make,
    .y_steps = true,
    .strided_bias = true,
    .grad_bias = [](const core::Problem&, const core::DeviceInfo&) { return true; }};

}  // namespace tconv::reference
