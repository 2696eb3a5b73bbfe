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
};

// (n, co, o) -> forward output.
Element forward_at(const Problem& p, const Operands& in, int64_t n, int64_t co, int64_t o) {
  const auto steps = p.x_steps();
  const int64_t cin_g = p.cin_per_group(), cout_g = p.cout_per_group(), group = co / cout_g;
  Sum sum;
  for (int64_t ci = group * cin_g; ci < (group + 1) * cin_g; ++ci) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t reach = o + p.padding - k * p.dilation;
      if (reach < 0) break;
      if (reach % p.stride != 0 || reach / p.stride >= p.l) continue;
      sum.add(load(p.dtype, in.x, n * steps[0] + ci * steps[1] + reach / p.stride * steps[2]),
              load(p.dtype, in.weight, (ci * cout_g + co % cout_g) * p.k + k));
    }
  }
  if (p.has_bias) {
    const double bias = load(p.dtype, in.bias, co);
    // Without any product it is the bias itself, -0.0 included.
    sum.element.value = sum.element.terms == 0 ? bias : sum.element.value + bias;
    sum.element.magnitude += std::fabs(bias);
  }
  return sum.element;
}

Element grad_input_at(const Problem& p, const Operands& in, int64_t n, int64_t ci, int64_t i) {
  const int64_t cout_g = p.cout_per_group(), group = ci / p.cin_per_group(), lout = p.lout();
  Sum sum;
  for (int64_t c = 0; c < cout_g; ++c) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t o = p.stride * i - p.padding + k * p.dilation;
      if (o < 0) continue;
      if (o >= lout) break;
      sum.add(load(p.dtype, in.grad_output, (n * p.cout + group * cout_g + c) * lout + o),
              load(p.dtype, in.weight, (ci * cout_g + c) * p.k + k));
    }
  }
  return sum.element;
}

Element grad_weight_at(const Problem& p, const Operands& in, int64_t ci, int64_t c, int64_t k) {
  const auto steps = p.x_steps();
  const int64_t co = ci / p.cin_per_group() * p.cout_per_group() + c, lout = p.lout();
  Sum sum;
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t i = 0; i < p.l; ++i) {
      const int64_t o = p.stride * i - p.padding + k * p.dilation;
      if (o < 0) continue;
      if (o >= lout) break;
      sum.add(load(p.dtype, in.x, n * steps[0] + ci * steps[1] + i * steps[2]),
              load(p.dtype, in.grad_output, (n * p.cout + co) * lout + o));
    }
  }
  return sum.element;
}

Element grad_bias_at(const Problem& p, const Operands& in, int64_t co) {
  const int64_t lout = p.lout();
  Sum sum;
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t o = 0; o < lout; ++o) {
      sum.add(load(p.dtype, in.grad_output, (n * p.cout + co) * lout + o), 1.0);
    }
  }
  return sum.element;
}

class ReferenceKernel final : public plan::Kernel {
 public:
  explicit ReferenceKernel(const Problem& problem) : problem_(problem) {}
  std::string describe() const override {
    return "scalar float64 loops over every output element: exact to one rounding, and slow";
  }
  core::Status run(const Operands& operands, const plan::RunContext& context) const override {
    // Blocks of outputs, so that a task is worth its hand-over.
    constexpr int64_t kBlock = 256;
    const int64_t count = problem_.output_elements();
    context.executor.run(core::ceil_div(count, kBlock), [&](int64_t block, int32_t) {
      const int64_t end = std::min(count, (block + 1) * kBlock);
      for (int64_t i = block * kBlock; i < end; ++i) {
        store(problem_.dtype, operands.output, i, element_at(problem_, operands, i).value);
      }
    });
    return {};
  }

 private:
  Problem problem_;
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
  const int64_t lout = p.lout();
  switch (p.operation) {
    case core::Operation::forward:
      return forward_at(p, raw, index / (p.cout * lout), index / lout % p.cout, index % lout);
    case core::Operation::grad_input:
      return grad_input_at(p, raw, index / (p.cin * p.l), index / p.l % p.cin, index % p.l);
    case core::Operation::grad_weight:
      return grad_weight_at(p, raw, index / (p.cout_per_group() * p.k), index / p.k % p.cout_per_group(),
                            index % p.k);
    case core::Operation::grad_bias:
      return grad_bias_at(p, raw, index);
  }
  return {};
}

const plan::KernelEntry kEntry = {"reference", "float64 scalar loops, every operation and every problem",
                                  core::DeviceKind::cpu, supports, make};

}  // namespace tconv::reference
